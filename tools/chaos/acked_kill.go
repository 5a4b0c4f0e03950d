package main

import (
	"context"
	"fmt"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

var ackedKill = scenario{
	name: "acked-kill", what: "kill -9 the moment an acknowledgement has been read, a thousand times: nothing lost",
	lack: anywhere, play: playAckedKill,
}

// playAckedKill sends one message to each partition at once, kills the broker at the first acknowledgement, and looks
// after the restart that each message that was acknowledged is where it was acknowledged. Everything is read back again
// at the end, since a later start must not lose what an earlier one kept.
func playAckedKill(ctx context.Context, s *stage) error {
	const partitions = 4
	kills := pick(s, 20, 1000)
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
	}
	records, err := c.verify(ctx)
	if err != nil {
		return err
	}
	sent, acked := c.counts()
	s.say("%d kills: %d sent, %d acknowledged, %d read back", kills, sent, acked, records)
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
	for _, r := range acked {
		l := ledgers[r.partition]
		if err := reads(ctx, after, l.topic, l.partition, r.offset, r.stamp); err != nil {
			return err
		}
	}
	return nil
}

// reads looks whether a message is at its offset.
func reads(ctx context.Context, client *pulsemq.Client, topic string, partition uint32, offset int64, want stamp) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	k, err := client.NewConsumer(pulsemq.ConsumerStopAtEnd())
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.AssignPartition(ctx, topic, partition, pulsemq.StartOffset(offset)); err != nil {
		return err
	}
	for r, err := range k.Records(ctx) {
		if err != nil {
			return fmt.Errorf("%s/%d, offset %d, which was acknowledged: %w", topic, partition, offset, err)
		}
		got, err := stampOf(r.Value)
		if err != nil || r.Offset != offset || got != want {
			return fmt.Errorf("%s/%d, offset %d: acknowledged there was %v, read was %v at %d (%v)", topic, partition, offset, want, got, r.Offset, err)
		}
		return nil
	}
	return fmt.Errorf("%s/%d, offset %d: the record that was acknowledged there is gone", topic, partition, offset)
}
