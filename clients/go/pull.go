package pulsemq

import (
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// fetchWaitShared is how long a FETCH may wait at the broker while other partitions wait for their turn.
const fetchWaitShared = 10 * time.Millisecond

// fetch asks for records, or puts the partition in line when there is no room. It is called with the consumer's lock
// held.
func (p *part) fetch(live *conn.Conn, leader cluster.Partition) {
	k := p.consumer
	config := &k.config
	reserve := int64(config.fetchBytes)
	if p.bytes >= reserve {
		return // enough is read ahead; returning it looks here again
	}
	if k.fetches >= config.fetchConcurrency || k.bytes > 0 && k.bytes+reserve > int64(config.bufferBytes) {
		if !p.hungry {
			p.hungry = true
			k.hungry = append(k.hungry, p)
		}
		return
	}
	wait := config.fetchWait
	if len(k.hungry) > 0 {
		wait = min(wait, fetchWaitShared)
	}
	if p.end >= 0 {
		wait = 0 // there is an end: nothing is waited for
	}
	generation := p.generation
	p.fetching = true
	k.fetches++
	k.bytes += reserve
	over := false // of the answering connection's reader alone
	request := &conn.Request{
		Message: &proto.FetchRequest{
			TopicID: p.id, Partition: p.number, LeaderEpoch: leader.LeaderEpoch, Offset: p.next, LastEpoch: p.nextEpoch,
			MinBytes: uint32(config.fetchBytesMin), MaxWaitMs: uint32(wait.Milliseconds()),
			MaxBytes: uint32(config.fetchBytes), MaxRecords: uint32(config.fetchRecords),
		},
		Keep: true,
		Wait: wait,
	}
	request.Done = func(payload []byte, err error) bool {
		var response proto.FetchResponse
		if err == nil {
			err = response.Decode(payload)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		current := p.generation == generation && !p.removed
		if err != nil || !response.More {
			over = true
			k.fetches--
			k.bytes -= reserve
			if current {
				p.fetching = false
			}
		}
		if current {
			if err != nil {
				p.refused(err)
			} else {
				p.fetched(&response)
			}
		}
		if over {
			k.feed()
			k.scheduler.look(p)
		}
		return !over
	}
	if err := live.Start(request); err != nil {
		k.fetches--
		k.bytes -= reserve
		p.fetching = false
		p.refused(err)
	}
}

// fetched takes in one frame of an answer.
func (p *part) fetched(r *proto.FetchResponse) {
	if len(r.Batches) > 0 {
		p.received(r.Batches, r.HighWatermark, nil)
		return
	}
	p.failures = 0
	p.highWatermark = r.HighWatermark
	if p.end >= 0 && !r.More && r.HighWatermark >= p.end {
		// Nothing is left before the end: compaction has emptied what was there.
		p.ended = true
		p.consumer.signal()
	}
}
