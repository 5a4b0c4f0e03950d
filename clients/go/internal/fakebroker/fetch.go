package fakebroker

import (
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// fetch waits for records and answers in frames of FrameBatches batches.
func (s *session) fetch(id uint64, r *proto.FetchRequest, fault Fault) {
	c := s.cluster
	deadline := time.After(time.Duration(r.MaxWaitMs) * time.Millisecond)
	bytesMax := int(r.MaxBytes)
	if bytesMax == 0 {
		bytesMax = int(c.Limits.FetchBytesMax)
	}
	for expired := false; ; {
		c.mu.Lock()
		p, refusal := c.find(s.node.ID, r.TopicID, r.Partition, r.LeaderEpoch)
		var batches []proto.Batch
		if refusal == nil {
			if refusal = p.diverged(r.Offset, r.LastEpoch); refusal == nil {
				batches, refusal = p.read(r.Offset, bytesMax)
			}
		}
		if refusal != nil {
			c.mu.Unlock()
			s.send(id, 0, refusal)
			return
		}
		bytes := 0
		for _, b := range batches {
			bytes += len(b)
		}
		frame := proto.FetchResponse{LeaderEpoch: p.leaderEpoch, HighWatermark: p.End, LogStartOffset: p.Start, LogEndOffset: p.End}
		changed := p.changed
		c.mu.Unlock()
		if bytes >= int(r.MinBytes) && bytes > 0 || expired || r.MaxWaitMs == 0 {
			s.answerFetch(id, frame, batches, fault)
			return
		}
		select {
		case <-changed:
		case <-deadline:
			expired = true
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *session) answerFetch(id uint64, frame proto.FetchResponse, batches []proto.Batch, fault Fault) {
	if fault.Silent {
		return
	}
	if fault.DropAfter {
		s.close()
		return
	}
	if len(batches) == 0 {
		s.send(id, 0, &frame)
	}
	for len(batches) > 0 {
		n := min(max(s.cluster.FrameBatches, 1), len(batches))
		var b []byte
		for _, batch := range batches[:n] {
			b = append(b, batch...)
		}
		batches = batches[n:]
		frame.More = len(batches) > 0
		frame.Batches = b
		if fault.CorruptCRC {
			frame.Batches = append([]byte(nil), b...)
			frame.Batches[len(b)-2] ^= 1 // in the last value: only the checksum tells
		}
		if fault.CutAnswer > 0 && !frame.More {
			s.send(id, fault.CutAnswer, &frame)
			s.close()
			return
		}
		s.send(id, 0, &frame)
	}
}
