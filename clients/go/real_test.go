package pulsemq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T, b *broker) *pulsemq.Client {
	t.Helper()
	client, err := pulsemq.Connect(within(t), b.address, pulsemq.ClientReconnect(5*time.Millisecond, 100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

var modes = map[string]pulsemq.ConsumerModeKind{"pull": pulsemq.ConsumerPull, "push": pulsemq.ConsumerPush}

// TestRealBrokerExactly sends records of every shape with every codec and wants them back to the byte.
func TestRealBrokerExactly(t *testing.T) {
	b := realBroker(t)
	client := connect(t, b)
	if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	var mu sync.Mutex
	sent := map[string]*pulsemq.Message{} // by partition and offset
	codecs := []pulsemq.Compression{pulsemq.CompressionNone, pulsemq.CompressionGzip, pulsemq.CompressionSnappy, pulsemq.CompressionLZ4, pulsemq.CompressionZstd}
	for _, codec := range codecs {
		p, err := client.NewProducer(pulsemq.ProducerCompression(codec))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			m := &pulsemq.Message{Topic: "t", Timestamp: time.UnixMilli(1700000000000 + int64(i))}
			if i%3 > 0 {
				m.Key = noise(i % 20)
			}
			if i%5 > 0 {
				m.Value = noise(rnd.IntN(2000) * (i % 4))
			}
			for n := range i % 4 {
				m.Headers = append(m.Headers, pulsemq.Header{Key: string(noise(n)), Value: [][]byte{nil, {}, noise(9)}[n]})
			}
			if err := p.SendAsync(within(t), m, func(r pulsemq.Result, err error) {
				if err != nil || r.Durability != pulsemq.DurabilitySync {
					t.Errorf("%+v, %v", r, err)
				}
				mu.Lock()
				defer mu.Unlock()
				sent[fmt.Sprint(r.Partition, r.Offset)] = m
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			k, err := client.NewConsumer(pulsemq.ConsumerMode(mode), pulsemq.ConsumerStopAtEnd())
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			if err := k.AssignTopic(within(t), "t", pulsemq.StartEarliest()); err != nil {
				t.Fatal(err)
			}
			n := 0
			for r, err := range k.Records(within(t)) {
				if err != nil {
					t.Fatal(err)
				}
				m := sent[fmt.Sprint(r.Partition, r.Offset)]
				if m == nil || !bytes.Equal(m.Key, r.Key) || (m.Key == nil) != (r.Key == nil) || !bytes.Equal(m.Value, r.Value) || (m.Value == nil) != (r.Value == nil) ||
					fmt.Sprintf("%#v", m.Headers) != fmt.Sprintf("%#v", r.Headers) || !m.Timestamp.Equal(r.Timestamp) {
					t.Fatalf("partition %d offset %d: %+v, sent %+v", r.Partition, r.Offset, r, m)
				}
				n++
			}
			if n != 200*len(codecs) {
				t.Errorf("%d records", n)
			}
		})
	}
}

// TestRealBrokerKilled kills the broker again and again while messages are sent and read. Every message is stored once,
// in the order of sending, where its result says; consumers that read all the while see the same.
func TestRealBrokerKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a broker five times")
	}
	b := realBroker(t)
	client := connect(t, b)
	const partitions, perPartition = 4, 5000
	if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	p, err := client.NewProducer(pulsemq.ProducerBatchRecords(50))
	if err != nil {
		t.Fatal(err)
	}
	var acked atomic.Int64
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		for i := range partitions * perPartition {
			n, partition := i/partitions, uint32(i%partitions)
			err := p.SendAsync(context.Background(), &pulsemq.Message{Topic: "t", Partition: pulsemq.PartitionNumber(partition), Value: fmt.Append(nil, n)}, func(r pulsemq.Result, err error) {
				if err != nil || r.Offset != int64(n) || r.Partition != partition {
					t.Errorf("partition %d message %d: %+v, %v", partition, n, r, err)
				}
				acked.Add(1)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if i%200 == 0 {
				time.Sleep(5 * time.Millisecond) // it takes about as long as the kills
			}
		}
	}()
	var reading sync.WaitGroup
	for name, mode := range modes {
		k, err := client.NewConsumer(pulsemq.ConsumerMode(mode), pulsemq.ConsumerFetchWait(50*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.AssignTopic(within(t), "t", pulsemq.StartEarliest()); err != nil {
			t.Fatal(err)
		}
		reading.Go(func() {
			defer k.Close()
			next := make([]int64, partitions)
			ctx := within(t)
			for total := 0; total < partitions*perPartition; {
				records, err := k.Poll(ctx)
				if err != nil {
					t.Errorf("%s after %d records: %v, %+v", name, total, err, k.Positions())
					return
				}
				for _, r := range records {
					if r.Offset != next[r.Partition] || string(r.Value) != fmt.Sprint(r.Offset) {
						t.Errorf("%s: partition %d has %s at offset %d, want %d", name, r.Partition, r.Value, r.Offset, next[r.Partition])
						return
					}
					next[r.Partition]++
					total++
				}
			}
		})
	}
	for kill := range 4 {
		for want := int64((kill + 1) * partitions * perPartition / 6); acked.Load() < want && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		b.kill()
		again, err := startBroker(b.data, b.address)
		if err != nil {
			t.Fatal(err)
		}
		*b = *again
	}
	<-sending
	if err := p.Close(within(t)); err != nil {
		t.Error(err)
	}
	reading.Wait()
}

// TestRealBrokerRefuses looks at errors as a broker words them.
func TestRealBrokerRefuses(t *testing.T) {
	b := realBroker(t)
	client := connect(t, b)
	a := client.Admin()
	if _, err := a.CreateTopic(within(t), pulsemq.TopicSpec{Name: "../x"}); !errors.Is(err, pulsemq.ErrInvalidName) {
		t.Error(err)
	}
	if _, err := a.CreateTopic(within(t), pulsemq.TopicSpec{Name: "t", Replicas: 3}); !errors.Is(err, pulsemq.ErrInvalidReplicationFactor) {
		t.Error(err)
	}
	if _, err := a.CreateTopic(within(t), pulsemq.TopicSpec{Name: "t", Config: map[string]string{"retention.mss": "1"}}); !errors.Is(err, pulsemq.ErrInvalidConfig) {
		t.Error(err)
	}
	if _, err := a.CreateTopic(within(t), pulsemq.TopicSpec{Name: "t", Partitions: 2, Config: map[string]string{"max.message.bytes": "4096"}}); err != nil {
		t.Fatal(err)
	}
	p, err := client.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(within(t), &pulsemq.Message{Topic: "t", Value: make([]byte, 5000)}); !errors.Is(err, pulsemq.ErrBatchTooLarge) {
		t.Error(err)
	}
	if _, err := p.Send(within(t), &pulsemq.Message{Topic: "t", Timestamp: time.Now().AddDate(10, 0, 0)}); !errors.Is(err, pulsemq.ErrInvalidTimestamp) {
		t.Error(err)
	}
	// Small messages in batches that the topic finds too large are halved until they fit.
	var failed atomic.Int32
	for i := range 2000 {
		p.SendAsync(within(t), &pulsemq.Message{Topic: "t", Partition: pulsemq.PartitionNumber(0), Value: fmt.Appendf(nil, "%0100d", i)}, func(r pulsemq.Result, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}
	if err := p.Flush(within(t)); err != nil || failed.Load() > 0 {
		t.Errorf("%d failed, %v", failed.Load(), err)
	}
	o, err := a.ListOffsets(within(t), "t", pulsemq.OffsetLatest(), 0)
	if err != nil || o[0].Offset < 2000 || o[0].Offset > 2001 {
		t.Errorf("%+v, %v", o, err)
	}
	k, err := client.NewConsumer()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.AssignPartition(within(t), "t", 0, pulsemq.StartOffset(99999)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Poll(within(t)); !errors.Is(err, pulsemq.ErrOffsetOutOfRange) {
		t.Error(err)
	}
	if _, err := a.DeleteRecords(within(t), "t", 0, 1000); err != nil {
		t.Error(err)
	}
	if err := k.Seek(within(t), "t", 0, pulsemq.StartEarliest()); err != nil {
		t.Fatal(err)
	}
	if records, err := k.Poll(within(t)); err != nil || records[0].Offset != 1000 {
		t.Errorf("%v", err)
	}
}
