package pulsemq

import (
	"context"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// identity is a producer id that the broker gave out. A producer uses one for all partitions, until one of them has to
// begin anew: see outOfStep. Ids are never used twice.
//
// Under one id a partition sees each sequence once. So it may number the records of a partition once: a queue that begins
// anew, also one that has taken the place of a forgotten one, gets another. Under the old id the broker would take its
// first batches for those that it has, and acknowledge what it does not store.
type identity struct {
	id    int64
	epoch int16
	used  map[place]bool // guarded by the producer's mu
}

// place is a partition as it is named, whatever id its topic has.
type place struct {
	topic     string
	partition uint32
}

// currentIdentity is an identity to begin with, or nil while it is asked for; then the queue is looked at later.
func (p *Producer) currentIdentity(q *queue) *identity {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, at := p.identity, (place{q.topic.name, q.partition}); i != nil && !i.used[at] {
		i.used[at] = true
		return i
	}
	p.identity = nil
	p.identityWaiters = append(p.identityWaiters, q)
	if len(p.identityWaiters) == 1 {
		p.spawnLocked(p.askIdentity)
	}
	return nil
}

// dropIdentity makes the next queue that needs an identity get another one.
func (p *Producer) dropIdentity(used *identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.identity == used {
		p.identity = nil
	}
}

// askIdentity asks until it is given one. Those that wait have their deadlines.
func (p *Producer) askIdentity() {
	for failures := 1; ; failures++ {
		answer, err := p.initProducer()
		if p.ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		waiters := p.identityWaiters
		if err == nil {
			p.identity = &identity{id: answer.ProducerID, epoch: answer.ProducerEpoch, used: map[place]bool{}}
			p.identityWaiters = nil
		}
		waiters = append([]*queue(nil), waiters...)
		p.mu.Unlock()
		for _, q := range waiters {
			q.mu.Lock()
			if err != nil {
				q.lastErr = err
			}
			q.mu.Unlock()
			if err == nil {
				p.look(q)
			}
		}
		if err == nil {
			return
		}
		select {
		case <-time.After(p.backoff.After(failures)):
		case <-p.ctx.Done():
			return
		}
	}
}

func (p *Producer) initProducer() (*proto.InitProducerResponse, error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.client.config.requestTimeout)
	defer cancel()
	live, err := p.client.cluster.Any(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Call[proto.InitProducerResponse](ctx, live, &proto.InitProducerRequest{})
}
