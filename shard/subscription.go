package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// subscription is this shard's part of one client subscription.
//
// Invariants: ready holds each share with unread data once, and no idle one;
// inFlight counts pushes being read or not yet returned.
type subscription struct {
	machine *Machine
	peer    *peer
	id      uint64
	conn    mail.ConnRef
	reactor uint8

	credit   int64 // lent by the reactor and not reserved by a read
	ready    core.Queue[*share]
	shares   []*share
	inFlight int
	queued   bool // in machine.pushable, or in machine.hungry or peer.hungry
	ended    bool
}

type shareState uint8

const (
	shareIdle    shareState = iota // no unread data; in no queue
	shareReady                     // in subscription.ready
	shareReading                   // in the store
)

// share is one partition of a subscription.
type share struct {
	subscription *subscription
	partition    *partition
	offset       core.Offset
	lastEpoch    core.LeaderEpoch // of the last record pushed
	state        shareState
	ended        bool // over; forgotten when it surfaces from a queue or the store
	place        int  // in partition.shares
	placeOwn     int  // in subscription.shares
}

// subscription finds or makes the one that a request names.
func (m *Machine) subscription(r *mail.Request) (*subscription, *proto.Error) {
	owner := m.peer(r)
	for _, s := range owner.subscriptions {
		if s.id == r.ID {
			return s, nil
		}
	}
	if len(owner.subscriptions) >= subscriptionsPerPeerMax { // so the peer is not a fresh one
		err := proto.CodeTooManySubscriptions.Errorf("the connection has %d subscriptions on this shard, which is as many as are allowed", len(owner.subscriptions))
		err.Limit = subscriptionsPerPeerMax
		return nil, err
	}
	s := &subscription{machine: m, peer: owner, id: r.ID, conn: r.Conn, reactor: r.Reactor}
	owner.subscriptions = append(owner.subscriptions, s)
	return s, nil
}

// subscribe adds a partition. A partition that is there already is begun anew.
func (m *Machine) subscribe(r *mail.Request) {
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err == nil {
		err = p.readableAt(r.Offset, r.LastEpoch)
	}
	var s *subscription
	if err == nil {
		s, err = m.subscription(r)
	}
	m.answer = mail.Answer{Kind: mail.AnswerSubscribe, Conn: r.Conn, ID: r.ID, Partition: r.Partition, LeaderEpoch: -1,
		Offset: r.Offset, Timestamp: -1, Received: r.Received, Err: err}
	if err == nil {
		m.answer.LeaderEpoch, m.answer.HighWatermark = p.leaderEpoch(), p.highWatermark()
		m.answer.LogStartOffset, m.answer.LogEndOffset = p.log.StartOffset(), p.log.EndOffset()
	}
	m.send(r.Reactor)
	if err != nil {
		return
	}
	if old := s.find(p); old != nil {
		old.end()
	}
	h := &share{subscription: s, partition: p, offset: r.Offset, lastEpoch: r.LastEpoch, place: len(p.shares), placeOwn: len(s.shares)}
	p.shares = append(p.shares, h)
	s.shares = append(s.shares, h)
	h.wake()
}

func (s *subscription) find(p *partition) *share {
	few := s.shares
	if len(p.shares) < len(few) {
		few = p.shares
	}
	for _, h := range few {
		if h.partition == p && h.subscription == s {
			return h
		}
	}
	return nil
}

func (m *Machine) unsubscribe(r *mail.Request) {
	owner := m.peers[peerKey{r.Reactor, r.Conn}]
	if owner == nil {
		return
	}
	for _, s := range owner.subscriptions {
		if s.id != r.ID {
			continue
		}
		if r.Partition == 0 {
			s.end()
		} else if p := m.partitions[r.Partition]; p != nil {
			if h := s.find(p); h != nil {
				h.end()
			}
		}
		m.releasePeer(owner)
		return
	}
}

// credit lets a subscription push more. The reactor keeps the client's credit and
// lends it to shards in pieces; what is lent here stays here until it is pushed.
func (m *Machine) credit(r *mail.Request) {
	s, err := m.subscription(r)
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	s.credit += int64(r.Bytes)
	s.enqueue()
}

// wake makes the share ready when its partition has data that it has not read.
func (h *share) wake() {
	if h.state == shareIdle && h.offset < h.partition.highWatermark() {
		h.state = shareReady
		h.subscription.ready.Push(h)
		h.subscription.enqueue()
	}
}

// enqueue puts the subscription into the machine's round, when it can push.
func (s *subscription) enqueue() {
	if !s.queued && !s.ended && s.ready.Len() > 0 && s.credit > 0 && s.inFlight < deliveriesPerSubscriptionMax {
		s.queued = true
		s.machine.pushable.Push(s)
	}
}

// run starts one push, of the share that has been ready longest.
func (s *subscription) run() {
	m := s.machine
	if s.ended || s.ready.Len() == 0 || s.credit <= 0 || s.inFlight >= deliveriesPerSubscriptionMax {
		return
	}
	want := s.want()
	h := s.ready.Pop()
	defer s.enqueue()
	if h.ended {
		return
	}
	p := h.partition
	switch {
	case p.exhausted():
		s.ready.Push(h)
		return
	case !m.readableFor(s.peer, want):
		s.ready.Push(h)
		s.starve(&s.peer.hungry)
		return
	case !m.readable(want):
		s.ready.Push(h)
		s.starve(&m.hungry)
		return
	}
	if err := p.readableAt(h.offset, h.lastEpoch); err != nil {
		h.fail(err)
		return
	}
	d := h.begin(want)
	if m.store.Read(&d.read) {
		d.ReadDone(&d.read)
	}
}

// begin takes what one push may need and says what is to be read for it.
func (h *share) begin(want int64) *delivery {
	s, p, m := h.subscription, h.partition, h.subscription.machine
	h.state = shareReading
	s.credit -= want
	s.inFlight++
	m.hold(s.peer, want)
	d := m.pools.delivery()
	d.share, d.reserved = h, want
	d.read.Log, d.read.Offset, d.read.Limit = p.log, h.offset, p.highWatermark()
	d.read.BytesMax, d.read.RecordsMax, d.read.Owner = int(want), m.options.FetchRecordsMax, d
	return d
}

// want is how much the next push may take.
func (s *subscription) want() int64 {
	switch {
	case s.ended:
		return 0
	case s.ready.Len() > 1:
		return min(s.credit, deliverBytesShared)
	}
	return min(s.credit, core.AnswerChunkBytesMax)
}

// starve waits for memory that other answers hold.
func (s *subscription) starve(behind *core.Queue[*subscription]) {
	s.machine.stats.Starved++
	s.queued = true
	behind.Push(s)
}

// fail tells the client why no more of the partition will come.
func (h *share) fail(err *proto.Error) {
	s, m := h.subscription, h.subscription.machine
	m.answer = mail.Answer{Kind: mail.AnswerDeliver, Conn: s.conn, ID: s.id, Partition: h.partition.id,
		LeaderEpoch: -1, Offset: -1, Timestamp: -1, Err: err}
	m.send(s.reactor)
	h.end()
}

// end takes the share off its partition and its subscription. One that is in a
// queue or in the store is skipped when it surfaces.
func (h *share) end() {
	if h.ended {
		return
	}
	h.ended = true
	p, s := h.partition, h.subscription
	last := p.shares[len(p.shares)-1]
	p.shares[h.place], last.place = last, h.place
	p.shares[len(p.shares)-1] = nil
	p.shares = p.shares[:len(p.shares)-1]
	last = s.shares[len(s.shares)-1]
	s.shares[h.placeOwn], last.placeOwn = last, h.placeOwn
	s.shares[len(s.shares)-1] = nil
	s.shares = s.shares[:len(s.shares)-1]
	s.purge()
}

// purge takes ended shares out of the queue when they outnumber the others: a
// client that seeks again and again without credit leaves one behind each time.
func (s *subscription) purge() {
	if s.ready.Len() <= 2*len(s.shares)+readySpare {
		return
	}
	for n := s.ready.Len(); n > 0; n-- {
		if h := s.ready.Pop(); !h.ended {
			s.ready.Push(h)
		}
	}
}

// readySpare is how many ended shares may stay in a queue in any case.
const readySpare = 16

// end takes the subscription off its connection.
func (s *subscription) end() {
	s.ended = true
	for len(s.shares) > 0 {
		s.shares[len(s.shares)-1].end()
	}
	for i, other := range s.peer.subscriptions {
		if other == s {
			s.peer.subscriptions = append(s.peer.subscriptions[:i], s.peer.subscriptions[i+1:]...)
			break
		}
	}
}
