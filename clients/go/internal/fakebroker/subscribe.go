package fakebroker

import (
	"sync"

	"github.com/pulsemq/pulsemq/proto"
)

// subscription pushes each of its partitions from a goroutine of its own.
type subscription struct {
	id    uint64
	mu    sync.Mutex
	bytes int64         // credit left
	more  chan struct{} // closed when credit is added
	parts map[proto.TopicPartition]chan struct{}
}

func (s *session) subscribe(id uint64, r *proto.SubscribeRequest, fault Fault) (proto.Message, error) {
	sub := s.subscriptions[r.Subscription]
	if r.Subscription == 0 {
		sub = &subscription{id: id, more: make(chan struct{}), parts: map[proto.TopicPartition]chan struct{}{}}
		s.subscriptions[id] = sub
	}
	if sub == nil {
		return nil, proto.CodeUnknownSubscription.Errorf("%d", r.Subscription)
	}
	sub.add(int64(r.CreditBytes))
	remove := r.Remove
	if r.Close {
		for part := range sub.parts {
			remove = append(remove, part)
		}
		delete(s.subscriptions, sub.id)
	}
	for _, part := range remove {
		if stop := sub.parts[part]; stop != nil {
			close(stop)
			delete(sub.parts, part)
		}
	}
	answer := &proto.SubscribeResponse{Subscription: sub.id}
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	for _, add := range r.Add {
		p, refusal := s.cluster.find(s.node.ID, add.TopicID, add.Partition, add.LeaderEpoch)
		if refusal == nil {
			if refusal = p.diverged(add.Offset, add.LastEpoch); refusal == nil {
				_, refusal = p.read(add.Offset, 1)
			}
		}
		if refusal != nil {
			answer.Errors = append(answer.Errors, proto.PartitionError{TopicID: add.TopicID, Partition: add.Partition, Error: *refusal})
			continue
		}
		part := proto.TopicPartition{TopicID: add.TopicID, Partition: add.Partition}
		stop := make(chan struct{})
		sub.parts[part] = stop
		s.running.Go(func() { s.push(sub, add, stop, fault) })
	}
	return answer, nil
}

func (sub *subscription) add(bytes int64) {
	if bytes == 0 {
		return
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.bytes += bytes
	close(sub.more)
	sub.more = make(chan struct{})
}

func (s *session) addCredit(r *proto.CreditRequest) {
	if sub := s.subscriptions[r.Subscription]; sub != nil {
		sub.add(int64(r.Bytes))
	}
}

// push sends one partition's batches for as long as there is credit.
func (s *session) push(sub *subscription, add proto.SubscribePartition, stop chan struct{}, fault Fault) {
	c := s.cluster
	offset := add.Offset
	for {
		c.mu.Lock()
		d := &proto.DeliverPush{TopicID: add.TopicID, Partition: add.Partition, Cookie: add.Cookie}
		p, refusal := c.find(s.node.ID, add.TopicID, add.Partition, -1)
		var batches []proto.Batch
		if refusal == nil {
			batches, refusal = p.read(offset, 1)
		}
		var changed chan struct{}
		if p != nil {
			changed = p.changed
			d.LeaderEpoch, d.HighWatermark, d.LogStartOffset = p.leaderEpoch, p.End, p.Start
		}
		c.mu.Unlock()
		if refusal != nil {
			d.Error = refusal
			s.send(sub.id, 0, d)
			return
		}
		if len(batches) == 0 {
			select {
			case <-changed:
				continue
			case <-stop:
				return
			case <-s.ctx.Done():
				return
			}
		}
		b := batches[0]
		if !sub.take(int64(len(b)), stop, s.ctx.Done()) {
			return
		}
		d.Batches = b
		if fault.CorruptCRC {
			d.Batches = append([]byte(nil), b...)
			d.Batches[len(b)-2] ^= 1
		}
		offset = b.NextOffset()
		s.send(sub.id, 0, d)
	}
}

// take waits for credit and takes it, overdrawing by at most this once.
func (sub *subscription) take(bytes int64, stop chan struct{}, done <-chan struct{}) bool {
	for {
		sub.mu.Lock()
		if sub.bytes > 0 {
			sub.bytes -= bytes
			sub.mu.Unlock()
			return true
		}
		more := sub.more
		sub.mu.Unlock()
		select {
		case <-more:
		case <-stop:
			return false
		case <-done:
			return false
		}
	}
}
