package pulsemq

import (
	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// creditFraction is the part of its credit that a subscription gives back at one time.
const creditFraction = 4

// subscription is what one broker pushes to a consumer over one connection. Everything is guarded by the consumer's lock.
//
// Invariants: the credit that the broker holds, what has been received and not been returned to the application, and owed
// add up to credit, but for the last push that may overdraw it by a batch.
//
//	at most one SUBSCRIBE is on its way; changes gather meanwhile and go together with the next
type subscription struct {
	consumer *Consumer
	node     uint32
	conn     *conn.Conn
	id       uint64 // 0 until the broker has made it
	credit   int64
	owed     int64
	asking   bool
	ended    bool

	parts  map[proto.TopicPartition]*part
	add    []*part
	remove []proto.TopicPartition
}

// subscribe adds a partition to the subscription at its leader, which is made if there is none.
func (k *Consumer) subscribe(p *part, live *conn.Conn, leader cluster.Partition) {
	s := k.subscriptions[leader.Leader]
	if s == nil || s.conn != live || s.ended {
		if s != nil {
			s.end()
		}
		s = &subscription{consumer: k, node: leader.Leader, conn: live, credit: k.creditShare(), parts: map[proto.TopicPartition]*part{}}
		k.subscriptions[leader.Leader] = s
		// Partitions of a connection that ends find another.
		k.goroutines.Go(func() {
			select {
			case <-live.Closed():
			case <-k.ctx.Done():
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			s.end()
		})
	}
	p.subscription = s
	s.parts[proto.TopicPartition{TopicID: p.id, Partition: p.number}] = p
	s.add = append(s.add, p)
	s.change()
}

// creditShare is a broker's part of the buffer: all brokers that lead what is read have the same.
func (k *Consumer) creditShare() int64 {
	leaders := map[uint32]bool{}
	for key := range k.parts {
		if t := k.client.cluster.Cached(key.topic); t != nil && int(key.number) < len(t.Partitions) {
			leaders[t.Partitions[key.number].Leader] = true
		}
	}
	return max(int64(k.config.bufferBytes)/int64(max(len(leaders), 1)), 1)
}

// unsubscribe stops pushes of a partition.
func (p *part) unsubscribe() {
	s := p.subscription
	if s == nil {
		return
	}
	p.subscription = nil
	tp := proto.TopicPartition{TopicID: p.id, Partition: p.number}
	delete(s.parts, tp)
	for i, other := range s.add {
		if other == p {
			s.add = append(s.add[:i], s.add[i+1:]...)
			break
		}
	}
	s.remove = append(s.remove, tp)
	s.change()
}

// change sends what has changed, unless a change is on its way.
func (s *subscription) change() {
	if s.asking || s.ended || len(s.add) == 0 && len(s.remove) == 0 {
		return
	}
	if s.id == 0 && len(s.add) == 0 {
		s.remove = nil // nothing was ever subscribed
		return
	}
	m := &proto.SubscribeRequest{Subscription: s.id}
	if s.id == 0 {
		m.CreditBytes = uint64(s.credit)
	} else {
		m.Remove = s.remove
	}
	asked := map[proto.TopicPartition]*part{}
	for _, p := range s.add {
		epoch := int32(-1)
		if t := s.consumer.client.cluster.Cached(p.topic); t != nil && int(p.number) < len(t.Partitions) {
			epoch = t.Partitions[p.number].LeaderEpoch
		}
		asked[proto.TopicPartition{TopicID: p.id, Partition: p.number}] = p
		m.Add = append(m.Add, proto.SubscribePartition{TopicID: p.id, Partition: p.number, LeaderEpoch: epoch,
			Offset: p.next, LastEpoch: p.nextEpoch, Cookie: p.generation})
	}
	s.add, s.remove = nil, nil
	request := &conn.Request{Message: m, Keep: true}
	if s.id == 0 {
		request.Push = s.push
	}
	generations := map[*part]uint32{}
	for _, p := range asked {
		generations[p] = p.generation
	}
	request.Done = func(payload []byte, err error) bool {
		s.answered(payload, err, asked, generations)
		return false
	}
	s.asking = true
	if err := s.conn.Start(request); err != nil {
		s.asking = false
		s.end()
	}
}

// answered takes the answer to a SUBSCRIBE.
func (s *subscription) answered(payload []byte, err error, asked map[proto.TopicPartition]*part, generations map[*part]uint32) {
	var response proto.SubscribeResponse
	if err == nil {
		err = response.Decode(payload)
	}
	k := s.consumer
	k.mu.Lock()
	defer k.mu.Unlock()
	s.asking = false
	refused := func(p *part, err error) {
		if p.subscription == s && p.generation == generations[p] {
			p.subscription = nil
			delete(s.parts, proto.TopicPartition{TopicID: p.id, Partition: p.number})
			p.refused(err)
		}
	}
	if err != nil {
		if s.id == 0 {
			s.ended = true
		}
		for _, p := range asked {
			refused(p, err)
		}
		if s.ended {
			s.release()
		}
		return
	}
	s.id = response.Subscription
	for i := range response.Errors {
		e := &response.Errors[i]
		if p := asked[proto.TopicPartition{TopicID: e.TopicID, Partition: e.Partition}]; p != nil && e.Error.Failed() {
			refused(p, &e.Error)
		}
	}
	if s.ended {
		s.closeThere() // it ended while it was being made
		return
	}
	s.change()
	s.owe(0)
}

// push takes what the broker sends.
func (s *subscription) push(payload []byte) {
	var d proto.DeliverPush
	err := d.Decode(payload)
	k := s.consumer
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil || s.ended {
		return // of a broker whose pushes cannot be read nothing is kept; the connection's own checks end it
	}
	tp := proto.TopicPartition{TopicID: d.TopicID, Partition: d.Partition}
	p := s.parts[tp]
	if p == nil || p.subscription != s || p.generation != d.Cookie {
		s.owe(int64(len(d.Batches))) // from before a seek
		return
	}
	if d.Error != nil && d.Error.Failed() {
		p.subscription = nil
		delete(s.parts, tp)
		p.highWatermark = max(p.highWatermark, d.HighWatermark)
		p.refused(d.Error)
		return
	}
	p.received(d.Batches, d.HighWatermark, nil, s)
}

// owe gives bytes back to the broker, in pieces that are worth a frame.
func (s *subscription) owe(bytes int64) {
	s.owed += bytes
	if s.ended || s.id == 0 || s.owed == 0 || s.owed < s.credit/creditFraction {
		return
	}
	if s.conn.Notify(&proto.CreditRequest{Subscription: s.id, Bytes: uint64(s.owed)}) == nil {
		s.owed = 0
	}
}

// close ends the subscription here and at the broker.
func (s *subscription) close() {
	if s.ended {
		return
	}
	s.end()
	if s.id != 0 && !s.asking {
		s.closeThere()
	}
}

func (s *subscription) closeThere() {
	s.conn.Unsubscribe(s.id)
	s.conn.Start(&conn.Request{Message: &proto.SubscribeRequest{Subscription: s.id, Close: true},
		Done: func([]byte, error) bool { return false }})
}

// end lets the partitions find another way.
func (s *subscription) end() {
	if s.ended {
		return
	}
	s.ended = true
	s.release()
}

func (s *subscription) release() {
	k := s.consumer
	if k.subscriptions[s.node] == s {
		delete(k.subscriptions, s.node)
	}
	for _, p := range s.parts {
		if p.subscription == s {
			p.subscription = nil
			k.scheduler.look(p)
		}
	}
	s.parts, s.add, s.remove = map[proto.TopicPartition]*part{}, nil, nil
}
