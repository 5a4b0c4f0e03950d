package pulsemq

import (
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// fetchWaitShared is how long a FETCH may wait at the broker while other partitions wait for their turn.
	fetchWaitShared = 10 * time.Millisecond

	// fetchBytesIdle is what a partition asks for that has been read to its end. It will wait at the broker, and what it
	// asks for is set aside meanwhile: with the full size a few idle partitions would take all of the buffer.
	fetchBytesIdle = 64 << 10
)

// fetch asks for records, or puts the partition in line when there is no room. It is called with the consumer's lock
// held.
func (p *part) fetch(live *conn.Conn, leader cluster.Partition) {
	k := p.consumer
	config := &k.config
	if p.bytes >= int64(config.fetchBytes) {
		return // enough is read ahead; returning it looks here again
	}
	reserve := p.reserve()
	if !p.fed && len(k.hungry) > 0 || !k.roomFor(reserve) {
		if !p.hungry {
			p.hungry = true
			k.hungry = append(k.hungry, p)
		}
		k.feed()
		return
	}
	wait := config.fetchWait
	if len(k.hungry) > 0 || len(k.parts) > config.fetchConcurrency || int64(len(k.parts))*reserve > int64(config.bufferBytes) {
		wait = min(wait, fetchWaitShared)
		if p.highWatermark < 0 {
			wait = 0 // whether it has anything is not known yet, and the others of thousands want to know, too
		}
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
			MaxBytes: uint32(reserve), MaxRecords: uint32(config.fetchRecords),
		},
		Keep: true,
		Wait: wait,
	}
	if k.reuse != nil {
		request.Buffer = k.reuse.buffer
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
				p.fetched(&response, payload)
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

// reserve is what a request of the partition sets aside of the buffer.
func (p *part) reserve() int64 {
	bytes := int64(p.consumer.config.fetchBytes)
	if p.next == p.highWatermark {
		bytes = min(bytes, fetchBytesIdle)
	}
	return bytes
}

// roomFor says whether there may be another request, which sets so many bytes aside.
func (k *Consumer) roomFor(bytes int64) bool {
	return k.fetches < k.config.fetchConcurrency && (k.bytes == 0 || k.bytes+bytes <= int64(k.config.bufferBytes))
}

// fetched takes in one frame of an answer, which came in payload.
func (p *part) fetched(r *proto.FetchResponse, payload []byte) {
	if len(r.Batches) > 0 {
		p.received(r.Batches, r.HighWatermark, payload, nil)
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
