package shard

import (
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/cursor"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/queue"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// leaser is this shard's part of one lease subscription.
//
// Invariants: each of its shares that has begun waits in its group's takers, or is in resting; the latter are none while
// it is able; inFlight counts deliveries from their claim until they have left for the socket.
type leaser struct {
	machine *Machine
	peer    *peer
	id      uint64
	conn    mail.ConnRef
	reactor uint8

	credit   int64 // records lent by the reactor and not claimed
	shares   []*leaseShare
	left     []*leaseShare // that have ended, and may have leases out
	resting  []*leaseShare // that do not wait for records, because it is not able; some may have ended
	inFlight int
	parched  bool // in peer.parched
	told     bool // that there are records and no credit
	ended    bool
}

// leaseShare is a member's lease subscription to one partition, and whose the leases are that came of it.
type leaseShare struct {
	leaser  *leaser
	queue   *queueGroup
	member  string
	owner   int64
	timeout int64 // of leases, nanoseconds; 0 the topic's
	holder  uint32
	until   int64       // no lease of it lasts longer; monotonic
	older   *leaseShare // of the same member
	begun   bool        // its group has a window
	waiting bool        // in queue.takers
	served  bool        // has had a delivery since it waits
	ended   bool        // nothing more is leased to it

	place, placeOwn int // in queue.shares, in leaser.shares; while it has not ended
}

// leaser finds or makes the lease subscription that a request names.
func (m *Machine) leaser(r *mail.Request) (*leaser, *proto.Error) {
	owner := m.peer(r)
	if l := owner.leaser(r.ID); l != nil {
		return l, nil
	}
	if len(owner.leasers) >= subscriptionsPerPeerMax { // so the peer is not a fresh one
		err := proto.CodeTooManySubscriptions.Errorf("the connection has %d lease subscriptions on this shard, which is as many as are allowed", len(owner.leasers))
		err.Limit = subscriptionsPerPeerMax
		return nil, err
	}
	l := &leaser{machine: m, peer: owner, id: r.ID, conn: r.Conn, reactor: r.Reactor}
	owner.leasers = append(owner.leasers, l)
	return l, nil
}

func (p *peer) leaser(id uint64) *leaser {
	for _, l := range p.leasers {
		if l.id == id {
			return l
		}
	}
	return nil
}

// lease adds a partition to a lease subscription; where the group has not begun it begins.
func (m *Machine) lease(r *mail.Request) {
	b := r.Body.(*mail.Lease)
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	if err == nil && p.coordinator != nil {
		err = errGroupsTopic
	}
	if err == nil {
		err = p.leasable(b)
	}
	var l *leaser
	if err == nil {
		l, err = m.leaser(r)
	}
	if err == nil {
		if s := l.find(p); s != nil && s.begun {
			err = proto.CodeInvalidRequest.Errorf("partition %d of topic %s is in the subscription already", p.number, p.topic.Name)
		} else if s != nil { // the client was told that it took too long, and tries again
			s.end(false)
		}
	}
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	q := p.queueFor(b.Group)
	q.holders++
	s := &leaseShare{leaser: l, queue: q, member: b.Member, owner: b.Owner, timeout: int64(b.TimeoutMillis) * int64(time.Millisecond), holder: q.holders, older: q.members[b.Member],
		place: len(q.shares), placeOwn: len(l.shares)}
	q.members[b.Member] = s
	q.shares = append(q.shares, s)
	l.shares = append(l.shares, s)
	q.forgetLeft()
	if q.window != nil {
		s.start(r)
		return
	}
	head := queue.Head{Owner: b.Owner, Time: m.wall / int64(time.Millisecond)}
	start := int64(max(b.Start, 0)) // it is not looked at when the group was set before it begins
	op := queue.Op{Kind: queue.Begin, Base: start, Next: start, Identity: p.queueIdentity(b.Group)}
	w := &cursorWish{entry: cursor.Entry{Kind: cursor.Queue, Group: b.Group, Epoch: b.Owner, Queue: op.Append(head.Append(nil), 0)}, lease: s}
	w.growth, w.windows = p.cursors.table.QueueGrowth(b.Group)
	m.await(&w.patience, r)
	p.wish(w)
}

// queueIdentity is a number that no window of the group in this partition had before.
func (p *partition) queueIdentity(group string) uint64 {
	const prime = 1_099_511_628_211
	h := uint64(14_695_981_039_346_656_037)
	for _, part := range []uint64{uint64(p.machine.wall), uint64(p.machine.now), uint64(p.id)} {
		for range 8 {
			h, part = (h^part&0xff)*prime, part>>8
		}
	}
	for i := range len(group) {
		h = (h ^ uint64(group[i])) * prime
	}
	return h
}

// leasable says why a member cannot lease from the partition.
func (p *partition) leasable(b *mail.Lease) *proto.Error {
	cs := p.cursorsFor()
	known, _ := cs.table.Get(b.Group)
	if b.Owner < known.Owner {
		return staleOwner(b.Group, p, b.Owner, known.Owner)
	}
	if cs.table.Window(b.Group) != nil {
		return nil
	}
	if known.Offset < 0 && (b.Start < p.log.StartOffset() || b.Start > p.highWatermark()) {
		return p.outOfRange(b.Start)
	}
	if cs.wishes >= cursorWishesMax {
		return errOverloadedCursor
	}
	growth, windows := cs.table.QueueGrowth(b.Group)
	held, full := cs.table.Bytes()+cs.growth, cs.table.QueueBytes()+cs.windows
	if cs.queues[b.Group] == nil && len(cs.queues) >= core.QueuesPerPartitionMax {
		err := proto.CodeGroupFull.Errorf("partition %d of topic %s has %d queue groups, which is as many as are allowed: delete groups that are done", p.number, p.topic.Name, len(cs.queues))
		err.Limit = core.QueuesPerPartitionMax
		return err
	}
	if growth > 0 && held+growth > core.CursorBytesMax || full+windows > core.QueueBytesMax-core.QueueTextBytesMax {
		err := proto.CodeGroupFull.Errorf("partition %d of topic %s keeps %d groups in %d bytes, and what the %d queue groups among them have leased and settled in %d bytes; allowed are %d and %d: settle records, or delete groups that are done",
			p.number, p.topic.Name, cs.table.Groups(), held, cs.table.Queues(), full, core.CursorBytesMax, core.QueueBytesMax-core.QueueTextBytesMax)
		err.Limit = core.QueueBytesMax - core.QueueTextBytesMax
		return err
	}
	return nil
}

// leaseBegun goes on when the group's begin is durable.
func (s *leaseShare) leaseBegun(w *cursorWish, outcome cursor.Outcome) {
	q, m := s.queue, s.queue.machine()
	switch {
	case !w.end(): // the client was told that nothing came of it
		s.end(false)
	case outcome == cursor.Stale:
		now, _ := q.partition.cursors.table.Get(q.name)
		m.refuseRequest(&w.request, staleOwner(q.name, q.partition, s.owner, now.Owner))
		s.end(false)
	default:
		core.Assert(outcome == cursor.Done, "a begin is read as it was written")
		s.start(&w.request)
	}
}

// leaseFailed answers when the begin is lost.
func (s *leaseShare) leaseFailed(w *cursorWish, err *proto.Error) {
	if w.end() {
		s.queue.machine().refuseRequest(&w.request, err)
	}
	s.end(false)
}

// start answers, and lets the share wait for records.
func (s *leaseShare) start(r *mail.Request) {
	p, m := s.queue.partition, s.queue.machine()
	known, _ := p.cursors.table.Get(s.queue.name) // the share may have ended meanwhile, and its group been let go
	m.answer = mail.Answer{
		Kind: mail.AnswerLease, Conn: r.Conn, ID: r.ID, Partition: p.id, LeaderEpoch: p.leaderEpoch(), Offset: core.Offset(known.Offset), Timestamp: -1,
		LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(), LogEndOffset: p.log.EndOffset(), Received: r.Received,
	}
	m.send(r.Reactor)
	if !s.ended {
		s.begun = true
		s.offer()
	}
}

func (l *leaser) find(p *partition) *leaseShare {
	for _, s := range l.shares {
		if s.queue.partition == p {
			return s
		}
	}
	return nil
}

// unlease takes a partition off a lease subscription, or ends it.
func (m *Machine) unlease(r *mail.Request) {
	owner := m.peers[peerKey{r.Reactor, r.Conn}]
	if owner == nil {
		return
	}
	if l := owner.leaser(r.ID); l != nil {
		if r.Partition == 0 {
			l.end()
		} else if p := m.partitions[r.Partition]; p != nil {
			if s := l.find(p); s != nil {
				s.end(false)
			}
		}
	}
	m.releasePeer(owner)
}

// leaseCredit lets a lease subscription have more.
func (m *Machine) leaseCredit(r *mail.Request) {
	owner := m.peers[peerKey{r.Reactor, r.Conn}]
	if owner == nil {
		return
	}
	if l := owner.leaser(r.ID); l != nil {
		l.credit += int64(r.Records)
		l.told = false
		l.offer()
	}
}

// leaseRecall gives back the credit that is not in use.
func (m *Machine) leaseRecall(r *mail.Request) {
	m.answer = mail.Answer{Kind: mail.AnswerLeaseCredit, Recalled: true, Conn: r.Conn, ID: r.ID, Partition: r.Partition, LeaderEpoch: -1, Offset: -1, Timestamp: -1, Received: r.Received}
	if owner := m.peers[peerKey{r.Reactor, r.Conn}]; owner != nil {
		if l := owner.leaser(r.ID); l != nil {
			m.answer.Records, l.credit = uint32(l.credit), 0
			m.answer.More = l.claimable()
			l.told = m.answer.More
		}
	}
	m.send(r.Reactor)
}

func (l *leaser) claimable() bool {
	return slices.ContainsFunc(l.shares, func(s *leaseShare) bool { return s.begun && s.queue.claimable() })
}

// able says whether a delivery may begin.
func (l *leaser) able() bool {
	return !l.ended && !l.parched && l.credit > 0 && l.inFlight < grantsPerLeaserMax
}

// tellMore tells the reactor once that there are records and no credit.
func (l *leaser) tellMore() {
	if l.ended || l.told || l.credit > 0 {
		return
	}
	l.told = true
	l.machine.answer = mail.Answer{Kind: mail.AnswerLeaseCredit, More: true, Conn: l.conn, ID: l.id, LeaderEpoch: -1, Offset: -1, Timestamp: -1}
	l.machine.send(l.reactor)
}

// parch waits for memory that other answers of the connection hold.
func (l *leaser) parch() {
	l.machine.stats.Starved++
	l.parched = true
	l.peer.parched.Push(l)
}

// offer lets the shares that rest wait for records again. Those that got nothing of the last credit go first: else the
// partition that was first would take each credit, and the others would wait for as long as it has records.
func (l *leaser) offer() {
	if !l.able() {
		return
	}
	for _, s := range l.resting {
		if !s.served {
			s.offer()
		}
	}
	for _, s := range l.resting {
		if s.served {
			s.served = false
			s.offer()
		}
	}
	clear(l.resting)
	l.resting = l.resting[:0]
}

// rest has the share wait no more, until its subscription is able.
func (s *leaseShare) rest() {
	l := s.leaser
	s.waiting = false
	if len(l.resting) > 2*len(l.shares)+readySpare {
		l.resting = slices.DeleteFunc(l.resting, func(other *leaseShare) bool { return other.ended })
	}
	l.resting = append(l.resting, s)
}

func (s *leaseShare) offer() {
	if !s.begun || s.ended {
		return
	}
	if !s.waiting {
		s.waiting = true
		s.queue.takers.Push(s)
	}
	s.queue.enqueue()
}

// end takes the subscription off its connection, and gives back what it has leased.
func (l *leaser) end() {
	l.ended = true
	for len(l.shares) > 0 {
		l.shares[len(l.shares)-1].end(true)
	}
	for len(l.left) > 0 {
		l.left[len(l.left)-1].giveBack()
	}
	if i := slices.Index(l.peer.leasers, l); i >= 0 {
		l.peer.leasers = slices.Delete(l.peer.leasers, i, i+1)
	}
}

// fail tells the client why no more of the partition will come.
func (s *leaseShare) fail(err *proto.Error) {
	l := s.leaser
	l.machine.answer = mail.Answer{Kind: mail.AnswerLeased, Conn: l.conn, ID: l.id, Partition: s.queue.partition.id, LeaderEpoch: -1, Offset: -1, Timestamp: -1, Err: err}
	l.machine.send(l.reactor)
	s.end(false)
}

// end takes the share off its group and its subscription; back: its leases are given back, and the deliveries count.
func (s *leaseShare) end(back bool) {
	if s.ended {
		return
	}
	s.ended = true
	q, l := s.queue, s.leaser
	last := q.shares[len(q.shares)-1]
	q.shares[s.place], last.place = last, s.place
	q.shares[len(q.shares)-1] = nil
	q.shares = q.shares[:len(q.shares)-1]
	last = l.shares[len(l.shares)-1]
	l.shares[s.placeOwn], last.placeOwn = last, s.placeOwn
	l.shares[len(l.shares)-1] = nil
	l.shares = l.shares[:len(l.shares)-1]
	switch {
	case back:
		s.giveBack()
	case s.until > q.machine().now && q.window != nil:
		q.left, l.left = append(q.left, s), append(l.left, s)
		q.forgetLeft()
	default:
		s.forget()
	}
	q.purge()
	if len(q.shares) == 0 && q.window != nil {
		q.window.Rest()
	}
	q.release()
}

// giveBack ends the leases of a share, or of one that has ended before.
func (s *leaseShare) giveBack() {
	q := s.queue
	if q.window != nil {
		spent := q.window.Leave(s.holder, q.attemptsMax(), q.spent[:0])
		q.kill(spent, queue.Abandoned)
		q.spent = spent[:0]
	}
	s.forget()
	q.enqueue()
}

// forget lets go of a share that has no leases.
func (s *leaseShare) forget() {
	q, l := s.queue, s.leaser
	same := func(other *leaseShare) bool { return other == s }
	q.left, l.left = slices.DeleteFunc(q.left, same), slices.DeleteFunc(l.left, same)
	if q.members[s.member] == s {
		if q.members[s.member] = s.older; s.older == nil {
			delete(q.members, s.member)
		}
		return
	}
	for other := q.members[s.member]; other != nil; other = other.older {
		if other.older == s {
			other.older = s.older
			return
		}
	}
}

// forgetLeft lets go of shares that have ended and whose leases are over. Those whose leases were all settled are looked
// for when there are twice as many as the last time: it takes a look at the whole window.
func (q *queueGroup) forgetLeft() {
	var holders map[uint32]struct{}
	looks := len(q.left) >= q.leftLook
	if looks && q.window != nil {
		holders = q.window.Holders()
	}
	for i := len(q.left) - 1; i >= 0; i-- {
		s := q.left[i]
		_, holds := holders[s.holder]
		if s.until <= q.machine().now || looks && !holds {
			s.forget()
		}
	}
	if looks {
		q.leftLook = 2*len(q.left) + leftSpare
	}
}

// forgetAll lets go of all that have ended: nothing is leased any more.
func (q *queueGroup) forgetAll() {
	for len(q.left) > 0 {
		q.left[len(q.left)-1].forget()
	}
}

// purge takes ended shares out of the queue when they outnumber the others.
func (q *queueGroup) purge() {
	if q.takers.Len() <= 2*len(q.shares)+readySpare {
		return
	}
	for n := q.takers.Len(); n > 0; n-- {
		if s := q.takers.Pop(); !s.ended {
			q.takers.Push(s)
		}
	}
}
