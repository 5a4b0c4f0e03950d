package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

var ackedKill = scenario{
	name: "acked-kill", what: "kill -9 the moment an acknowledgement has been read, a thousand times: nothing lost",
	lack: anywhere, play: playAckedKill,
}

// ackedKillLanes are brokers that are killed independently of each other. Most of what a kill takes is waiting: for the
// end of a process, and for the start of the next.
const ackedKillLanes = 4

// playAckedKill sends one message to each partition at once, kills the broker at the first acknowledgement, and looks
// after the restart that each message that was acknowledged is where it was acknowledged. Everything is read back again
// at the end, since a later start must not lose what an earlier one kept.
func playAckedKill(ctx context.Context, s *stage) error {
	kills := pick(s, 5, 250) // of each broker
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	faults := make([]error, ackedKillLanes)
	var all sync.WaitGroup
	for i := range faults {
		lane := *s
		lane.folder = filepath.Join(s.folder, "lane-"+strconv.Itoa(i))
		lane.random = rand.New(rand.NewPCG(s.seed, uint64(i)))
		all.Go(func() {
			if err := playAckedKillLane(ctx, &lane, kills); err != nil {
				faults[i] = fmt.Errorf("broker %d: %w", i, err)
				stop() // the others end with the context's error
			}
		})
	}
	all.Wait()
	for _, err := range faults {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(faults...)
}

func playAckedKillLane(ctx context.Context, s *stage, kills int) error {
	const partitions = 4
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return err
	}
	b := newBroker(s)
	if err := b.start(); err != nil {
		return err
	}
	defer b.end()
	c, err := newCast(ctx, b.Address, []role{{name: "acked", partitions: partitions, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB"}}})
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	sizes := []int{20, 20, 3000, 100_000} // small ones go through the journal, large ones to the segment
	for kill := range kills {
		if err := ackedKillOnce(ctx, s, b, c.ledgers["acked"], sizes); err != nil {
			return fmt.Errorf("kill %d: %w", kill+1, err)
		}
		if n := kill + 1; n%50 == 0 {
			s.say("%s: %d of %d kills", filepath.Base(s.folder), n, kills)
		}
	}
	records, err := c.verify(ctx)
	if err != nil {
		return err
	}
	sent, acked := c.counts()
	s.say("%s: %d kills: %d sent, %d acknowledged, %d read back", filepath.Base(s.folder), kills, sent, acked, records)
	return b.sound()
}

// ackedKillOnce is one kill: its connection is one of its own without retries, so that nothing is sent again.
func ackedKillOnce(ctx context.Context, s *stage, b *broker, ledgers []*ledger, sizes []int) error {
	client, err := pulsemq.Connect(ctx, "mq://"+b.Address)
	if err != nil {
		return err
	}
	defer client.Close()
	producer, err := client.NewProducer(pulsemq.ProducerLinger(0), pulsemq.ProducerIdempotence(false))
	if err != nil {
		return err
	}
	type result struct {
		partition int
		stamp     stamp
		offset    int64
		err       error
	}
	results := make(chan result, len(ledgers)) // nobody is ever kept waiting
	for i, l := range ledgers {
		st := l.next(s.random.Uint64())
		m := &pulsemq.Message{Topic: l.topic, Partition: pulsemq.PartitionNumber(l.partition), Value: st.value(sizes[s.random.IntN(len(sizes))])}
		if err := producer.SendAsync(ctx, m, func(r pulsemq.Result, err error) { results <- result{i, st, r.Offset, err} }); err != nil {
			return err
		}
	}
	first := <-results
	if first.err != nil {
		return fmt.Errorf("not killed yet, and a message was refused: %w", first.err)
	}
	if err := b.Kill(); err != nil {
		return err
	}
	client.Close() // what has no answer now gets none
	var acked []result
	for r, n := first, 1; ; n++ { // the others may have been acknowledged before it died
		if r.err == nil {
			acked = append(acked, r)
			ledgers[r.partition].ack(r.stamp, r.offset, "")
		}
		if n == len(ledgers) {
			break
		}
		r = <-results
	}
	if err := b.restart(); err != nil {
		return err
	}
	after, err := pulsemq.Connect(ctx, "mq://"+b.Address)
	if err != nil {
		return err
	}
	defer after.Close()
	wants := map[uint32]wanted{}
	for _, r := range acked {
		wants[ledgers[r.partition].partition] = wanted{r.offset, r.stamp}
	}
	return reads(ctx, after, ledgers[0].topic, wants)
}

// wanted is what was acknowledged at an offset.
type wanted struct {
	offset int64
	stamp  stamp
}

// reads looks whether messages are at their offsets, one in each partition.
func reads(ctx context.Context, client *pulsemq.Client, topic string, wants map[uint32]wanted) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	k, err := client.NewConsumer(pulsemq.ConsumerStopAtEnd())
	if err != nil {
		return err
	}
	defer k.Close()
	missing := maps.Clone(wants)
	for partition, want := range wants {
		if err := k.AssignPartition(ctx, topic, partition, pulsemq.StartOffset(want.offset)); err != nil {
			return err
		}
	}
	for r, err := range k.Records(ctx) {
		if err != nil {
			return fmt.Errorf("%s, acknowledged were %v: %w", topic, missing, err)
		}
		want, first := missing[r.Partition]
		if !first {
			continue // what was sent with it and not acknowledged
		}
		got, err := stampOf(r.Value)
		if err != nil || r.Offset != want.offset || got != want.stamp {
			return fmt.Errorf("%s/%d, offset %d: acknowledged there was %v, read was %v at %d (%v)", topic, r.Partition, want.offset, want.stamp, got, r.Offset, err)
		}
		if delete(missing, r.Partition); len(missing) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: records that were acknowledged are gone: partition, offset and message %v", topic, missing)
}
