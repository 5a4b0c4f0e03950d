package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// A probe asks what a producer is told, apart from the load and its ledgers, and on a connection of its own: the load may
// have filled the window of its.
const (
	probeTopic      = "probe"
	probePartitions = 8
)

// makeProbe creates the probes' topic.
func (p *plan) makeProbe(ctx context.Context) (err error) {
	if p.prober, err = pulsemq.Connect(ctx, "mq://"+p.process.Address, pulsemq.ClientReconnect(10*time.Millisecond, 100*time.Millisecond)); err != nil {
		return err
	}
	_, err = p.prober.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: probeTopic, Partitions: probePartitions})
	return err
}

// probeEach sends a message to each partition of a topic of its own, and counts those that were stored within a time and
// those that were not. It fails when one is heard of much later than that.
// why are the different reasons of those that were not stored.
func (p *plan) probeEach(ctx context.Context, told time.Duration) (quick, slow int, why []string, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for partition := range uint32(probePartitions) {
		all.Go(func() {
			began := time.Now()
			failure := p.probePartition(ctx, partition, told)
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failure == nil && took < told:
				quick++
			case took > told+stallTold:
				err = errors.Join(err, fmt.Errorf("partition %d answered after %v: %v", partition, took, failure))
			default:
				slow++
				if text := fmt.Sprint(failure); !slices.Contains(why, text) {
					why = append(why, text)
				}
			}
		})
	}
	all.Wait()
	return quick, slow, why, err
}

// probe sends one message.
func (p *plan) probe(ctx context.Context, limit time.Duration) error {
	return p.probePartition(ctx, 0, limit)
}

func (p *plan) probePartition(ctx context.Context, partition uint32, limit time.Duration) error {
	producer, err := p.prober.NewProducer(pulsemq.ProducerDeliveryTimeout(limit), pulsemq.ProducerLinger(0), pulsemq.ProducerIdempotence(false))
	if err != nil {
		return err
	}
	defer producer.Close(ctx)
	_, err = producer.Send(ctx, &pulsemq.Message{Topic: probeTopic, Partition: pulsemq.PartitionNumber(partition), Value: []byte("probe")})
	return err
}
