package pulsemq

import (
	"errors"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// leasing is what one broker leases to a queue consumer over one connection: a subscription of LEASE. Everything is
// guarded by the consumer's lock.
//
// Invariants: what the broker may still lease (open), what is held and owed add up to the consumer's credit, but for
// messages that were handed out with QueueAtMostOnce
//
//	at most one LEASE is on its way; changes gather meanwhile and go together with the next
type leasing struct {
	consumer *QueueConsumer
	node     uint32
	conn     *conn.Conn
	member   string // under which the records are leased, also when the consumer has joined anew since
	id       uint64 // 0 until the broker has made it
	open     int    // credit that the broker has
	owed     int    // credit to be given with the next LEASE
	asking   bool
	retired  bool // nothing more is leased; it ends with what is held
	ended    bool

	parts    map[proto.TopicPartition]*queuePart
	add      []*queuePart
	remove   []proto.TopicPartition
	held     map[*QueueMessage]struct{} // neither settled nor lost
	settlers map[proto.TopicPartition]*settler
	names    map[proto.TopicPartition]string // of topics, also of partitions that are not leased from any more
	ids      map[partKey][16]byte
}

// leasingOf is the subscription at a broker, which is made if there is none.
func (q *QueueConsumer) leasingOf(node uint32, live *conn.Conn) *leasing {
	l := q.leasings[node]
	if l != nil && l.conn == live && !l.ended && !l.retired {
		return l
	}
	if l != nil {
		l.retire()
	}
	l = &leasing{
		consumer: q, node: node, conn: live, member: q.memberID, parts: map[proto.TopicPartition]*queuePart{}, held: map[*QueueMessage]struct{}{},
		settlers: map[proto.TopicPartition]*settler{}, names: map[proto.TopicPartition]string{}, ids: map[partKey][16]byte{},
	}
	q.leasings[node] = l
	q.all[l] = struct{}{}
	q.goroutines.Go(func() {
		select {
		case <-live.Closed():
		case <-q.over.Done():
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		l.end(ErrDisconnected)
	})
	return l
}

// lease adds a partition.
func (l *leasing) lease(p *queuePart) {
	p.leasing = l
	l.parts[p.place()] = p
	l.names[p.place()], l.ids[p.key] = p.key.topic, p.id
	l.add = append(l.add, p)
	l.change()
}

// unlease takes a partition off; what waits of it is given back, what is worked on stays.
func (l *leasing) unlease(p *queuePart) {
	p.leasing = nil
	tp := p.place()
	delete(l.parts, tp)
	for i, other := range l.add {
		if other == p {
			l.add = append(l.add[:i], l.add[i+1:]...)
			break
		}
	}
	l.remove = append(l.remove, tp)
	l.giveBack(func(m *QueueMessage) bool { return m.Topic == p.key.topic && m.Partition == p.key.number })
	l.change()
}

// stop takes every partition off and gives back what waits. In this order: what is given back first might be leased to this
// member again, with credit that it has left, and would count as delivered when the subscription ends.
func (l *leasing) stop() {
	for tp, p := range l.parts {
		p.leasing = nil
		l.remove = append(l.remove, tp)
	}
	clear(l.parts)
	l.add = nil
	l.change()
	l.giveBack(func(*QueueMessage) bool { return true })
}

// giveBack releases messages that wait here.
func (l *leasing) giveBack(which func(*QueueMessage) bool) {
	for m := range l.held {
		if m.begun.IsZero() && which(m) {
			l.release(m)
		}
	}
}

// release gives a message back as if it had not been delivered; false when it is acknowledged already.
func (l *leasing) release(m *QueueMessage) {
	if m.settled {
		return
	}
	m.settled = true
	m.final = Settling{consumer: l.consumer, message: m, base: m.Offset, next: m.Offset + 1, attempt: uint32(m.Attempt), outcome: proto.SettlementRelease}
	l.settle(proto.TopicPartition{TopicID: l.topic(m), Partition: m.Partition}, &m.final)
	l.drop(m)
}

// drop takes a message off those that are held: the broker may lease another.
func (l *leasing) drop(m *QueueMessage) {
	if _, ok := l.held[m]; ok {
		delete(l.held, m)
		l.repay(1)
	}
}

// repay owes the broker credit, and gives it in pieces that are worth a frame; at once when it has none left.
func (l *leasing) repay(n int) {
	l.owed += n
	l.change()
}

func (l *leasing) topic(m *QueueMessage) [16]byte { return l.ids[partKey{m.Topic, m.Partition}] }

// change sends what has changed, unless a change is on its way.
func (l *leasing) change() {
	due := l.owed > 0 && !l.retired && !l.consumer.closed && (l.open == 0 || l.owed*creditFraction >= l.consumer.config.credit())
	if l.asking || l.ended || len(l.add) == 0 && len(l.remove) == 0 && (!due || l.id == 0) {
		l.closeWhenDone()
		return
	}
	if l.id == 0 && len(l.add) == 0 {
		l.remove = nil // nothing was ever leased
		l.closeWhenDone()
		return
	}
	m := &proto.LeaseRequest{Subscription: l.id, AckTimeoutMs: millis(l.consumer.config.ackTimeout)}
	if l.id == 0 {
		m.Group, m.MemberID = l.consumer.group, l.member
		l.owed = l.consumer.config.credit()
	} else {
		m.Remove = l.remove
	}
	if !l.retired {
		m.CreditRecords = uint32(l.owed)
		l.open += l.owed
		l.owed = 0
	}
	asked := l.add
	for _, p := range asked {
		m.Add = append(m.Add, proto.LeasePartition{TopicID: p.id, Partition: p.key.number, LeaderEpoch: -1, OwnerEpoch: p.owner, StartOffset: p.start})
	}
	l.add, l.remove = nil, nil
	request := &conn.Request{Message: m, Keep: true}
	if l.id == 0 {
		request.Push = l.push
	}
	request.Done = func(payload []byte, err error) bool {
		l.answered(payload, err, asked)
		return false
	}
	l.asking = true
	if err := l.conn.Start(request); err != nil {
		l.asking = false
		for _, p := range asked {
			l.refused(p, err)
		}
		l.end(err)
	}
}

// answered takes the answer to a LEASE.
func (l *leasing) answered(payload []byte, err error, asked []*queuePart) {
	var response proto.LeaseResponse
	if err == nil {
		err = response.Decode(payload)
	}
	q := l.consumer
	q.mu.Lock()
	defer q.mu.Unlock()
	l.asking = false
	if err != nil {
		for _, p := range asked {
			l.refused(p, err)
		}
		l.end(err)
		return
	}
	l.id = response.Subscription
	errs := map[proto.TopicPartition]*proto.Error{}
	for i := range response.Errors {
		e := &response.Errors[i]
		errs[proto.TopicPartition{TopicID: e.TopicID, Partition: e.Partition}] = &e.Error
	}
	for _, p := range asked {
		if e := errs[p.place()]; e != nil {
			l.refused(p, e)
		} else if p.leasing == l {
			p.failures = 0
		}
	}
	l.change()
}

// refused takes a partition off that the broker does not lease, unless it has been taken off already.
func (l *leasing) refused(p *queuePart, err error) {
	if p.leasing != l {
		return
	}
	p.leasing = nil
	delete(l.parts, p.place())
	l.consumer.refused(p, err)
}

// push takes what the broker leases.
func (l *leasing) push(payload []byte) {
	var d proto.LeasedPush
	if err := d.Decode(payload); err != nil {
		return // of a broker whose pushes cannot be read nothing is kept; the connection's own checks end it
	}
	tp := proto.TopicPartition{TopicID: d.TopicID, Partition: d.Partition}
	q := l.consumer
	if d.Error != nil && d.Error.Failed() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if p := l.parts[tp]; p != nil {
			l.refused(p, d.Error)
		}
		l.loseAll(d.Error, func(m *QueueMessage) bool { return m.Partition == tp.Partition && l.topic(m) == tp.TopicID })
		l.change()
		return
	}
	q.mu.Lock()
	name := l.names[tp]
	q.mu.Unlock()
	messages, others := unpack(&d, name) // decompressing takes its time
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range d.Leases {
		l.open -= int(d.Leases[i].NextOffset - d.Leases[i].BaseOffset)
	}
	l.open = max(l.open, 0)
	if l.ended {
		return
	}
	for i := range others {
		others[i].consumer = q
		l.settle(tp, &others[i])
		l.owed += int(others[i].next - others[i].base)
	}
	timeout := time.Duration(d.TimeoutMs) * time.Millisecond
	now := time.Now()
	for _, m := range messages {
		m.consumer, m.lease, m.extendAt = q, l, now.Add(timeout/2)
		l.held[m] = struct{}{}
		switch {
		case l.parts[tp] == nil || q.closed: // taken off while this was under way
			l.release(m)
		case q.config.atMostOnce:
			m.settled = true
			m.final = Settling{consumer: q, message: m, base: m.Offset, next: m.Offset + 1, attempt: uint32(m.Attempt), outcome: proto.SettlementAck}
			delete(l.held, m) // its credit is given back when it is handed out
			l.settle(tp, &m.final)
		default:
			q.ready = append(q.ready, m)
		}
	}
	q.leaseLasts(timeout)
	q.signal()
	l.change()
}

// unpack makes messages of the records that a push leases, and outcomes for those that are in none of its batches: what
// compaction has taken out is done, and what is damaged is given back.
func unpack(d *proto.LeasedPush, topic string) (messages []*QueueMessage, others []Settling) {
	ranges := d.Leases
	// other settles everything up to an offset.
	other := func(up int64, outcome proto.Settlement, reason string) {
		for len(ranges) > 0 && ranges[0].BaseOffset < up {
			r := &ranges[0]
			next := min(r.NextOffset, up)
			others = append(others, Settling{base: r.BaseOffset, next: next, attempt: r.Attempt, outcome: outcome, reason: reason})
			if r.BaseOffset = next; next == r.NextOffset {
				ranges = ranges[1:]
			}
		}
	}
	ranges = append([]proto.LeasedRange(nil), ranges...)
	for rest := d.Batches; len(rest) > 0 && len(ranges) > 0; {
		b, after, err := proto.NextBatch(rest)
		if err != nil {
			break
		}
		rest = after
		it := new(proto.RecordIterator)
		if err = b.ValidateCRC(); err == nil {
			err = it.Reset(b, consumerConfigDefault().recordBytesMax)
		}
		for err == nil && len(ranges) > 0 && it.Next() {
			r := it.Record()
			other(r.Offset, proto.SettlementAck, "")
			if len(ranges) == 0 || r.Offset < ranges[0].BaseOffset {
				continue
			}
			m := &QueueMessage{Attempt: int(ranges[0].Attempt), Record: Record{Topic: topic, Partition: d.Partition, Offset: r.Offset, LeaderEpoch: b.LeaderEpoch(),
				Timestamp: time.UnixMilli(r.Timestamp), TimestampType: b.TimestampType(), Key: r.Key, Value: r.Value}}
			for _, h := range r.Headers {
				m.Headers = append(m.Headers, Header{Key: string(h.Key), Value: h.Value})
			}
			messages = append(messages, m)
			if ranges[0].BaseOffset++; ranges[0].BaseOffset == ranges[0].NextOffset {
				ranges = ranges[1:]
			}
		}
		if err = errors.Join(err, it.Err()); err != nil {
			other(b.NextOffset(), proto.SettlementNack, "the batch did not arrive whole: "+err.Error())
		}
	}
	if len(ranges) > 0 {
		other(ranges[len(ranges)-1].NextOffset, proto.SettlementAck, "")
	}
	return messages, others
}

// retire leases nothing more: what waits is given back, and it ends when what is worked on is settled.
func (l *leasing) retire() {
	if l.ended || l.retired {
		return
	}
	l.retired = true
	for _, p := range l.parts {
		l.unlease(p)
	}
	l.giveBack(func(*QueueMessage) bool { return true })
	l.closeWhenDone()
}

// closeWhenDone ends a retired one at the broker, when nothing is held and nothing on its way.
func (l *leasing) closeWhenDone() {
	if !l.retired || l.ended || l.asking || len(l.held) > 0 || len(l.remove) > 0 && l.id != 0 {
		return
	}
	for _, s := range l.settlers {
		if len(s.waiting) > 0 || len(s.sent) > 0 {
			return
		}
	}
	l.close()
}

// close ends it here and at the broker, which takes what is still leased back.
func (l *leasing) close() {
	if l.ended {
		return
	}
	if l.id != 0 {
		l.conn.Unsubscribe(l.id)
		_ = l.conn.Start(&conn.Request{Message: &proto.LeaseRequest{Subscription: l.id, Close: true}, Done: func([]byte, error) bool { return false }})
	}
	l.end(ErrClosed)
}

// end lets the partitions find another way. What is held is lost: the broker has taken it back.
func (l *leasing) end(err error) {
	if l.ended {
		return
	}
	l.ended = true
	q := l.consumer
	if q.leasings[l.node] == l {
		delete(q.leasings, l.node)
	}
	delete(q.all, l)
	for _, p := range l.parts {
		if p.leasing == l {
			p.leasing = nil
		}
	}
	l.loseAll(err, func(*QueueMessage) bool { return true })
	for _, s := range l.settlers {
		s.fail(err)
	}
	q.look()
	q.signal()
}

// loseAll is for messages that the broker has taken back by itself.
func (l *leasing) loseAll(err error, which func(*QueueMessage) bool) {
	for m := range l.held {
		if m.settled || !which(m) {
			continue
		}
		delete(l.held, m)
		l.owed++
		m.settled = m.begun.IsZero() // nobody has seen it
		m.lose(ErrLeaseLost.Errorf("the broker has taken it back: %v", err))
	}
}
