package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// answersPerTurn bounds what one turn takes out of each answer ring, so that
	// sockets are read between turns.
	answersPerTurn = 1024

	// backlogRequestsMax bounds the refusable requests that wait for room in the ring
	// of one shard. With the ring full and this many waiting, the shard is far
	// behind and OVERLOADED is the honest answer.
	backlogRequestsMax = 1024

	// roomWait is after how many nanoseconds the reactor looks again whether there is
	// room in a ring or a socket has taken its output; a socket is looked at less and
	// less often, down to roomWait << roomWaitShiftMax.
	roomWait         = int64(1e6)
	roomWaitShiftMax = 5

	// overloadedWaitMs is what a client is told to wait after OVERLOADED: long
	// enough for a full ring to drain, short enough not to idle a producer.
	overloadedWaitMs = 50
)

// Reactor is the connections of one network thread and their way to the shards.
// It is a value that reacts, like the shard: it has no goroutine and no socket of
// its own, time comes through its Clock, and all calls come from one thread.
//
// Each event on a connection ends with Flush, each batch of answers is one Turn.
type Reactor struct {
	index    uint8
	settings Settings
	clock    core.Clock
	views    *mail.Views
	links    []*mail.Link // by shard

	now  int64     // the monotonic clock at the current event
	view core.View // the newest at the current event

	slots   []slot
	free    []uint32 // numbers of slots without a session
	windows windowBudget

	// Per shard: requests that found the ring full. Order is kept: while a backlog
	// is not empty, new requests go behind it.
	backlogs []queue[mail.Request]
	// unpublished marks links with requests that the shard has not been shown.
	unpublished []bool

	dirty   []*Session // with output to be written at the end of the event
	blocked []*Session // whose output did not all fit the socket
	starved []*scatter // that found every way full and wait for the next turn

	flushing bool // inside Flush
	looks    int  // at the blocked sessions since one of them was unblocked
	draining bool // the broker is shutting down: new requests are refused

	batch   [64]mail.Answer
	slices  [core.AnswerSlicesMax][]byte
	buffers [][]byte // spare output and input buffers
	returns []returning
	encode  encodeScratch

	stats Stats
	page  published
}

// slot is a place for a session. The serial rises with each user, so that a late
// answer to one session is not taken for its successor's.
type slot struct {
	session *Session
	serial  uint32
}

// ReactorOptions makes a Reactor.
type ReactorOptions struct {
	Index    int
	Settings Settings
	Clock    core.Clock
	Views    *mail.Views
	Links    []*mail.Link // by shard
}

// NewReactor returns a reactor without connections.
func NewReactor(o ReactorOptions) *Reactor {
	core.Assert(len(o.Links) > 0 && len(o.Links) <= core.ShardsMax, "a reactor is linked with every shard")
	core.Assert(o.Index < core.ReactorsMax, "a reactor's index fits its limit")
	r := &Reactor{
		index:       uint8(o.Index),
		settings:    o.Settings,
		clock:       o.Clock,
		views:       o.Views,
		links:       o.Links,
		backlogs:    make([]queue[mail.Request], len(o.Links)),
		unpublished: make([]bool, len(o.Links)),
		windows:     windowBudget{total: o.Settings.WindowBudgetBytes},
	}
	r.stats.init()
	r.begin()
	return r
}

// begin reads what one event sees as constant.
func (r *Reactor) begin() {
	r.now = r.clock.Monotonic()
	r.view = r.views.Load()
}

// Open takes a new connection. The session is told nothing but what the caller
// passes to it; the caller calls its Lost when the connection is gone.
func (r *Reactor) Open(conn core.Conn, listener *Listener) *Session {
	r.begin()
	var number uint32
	if n := len(r.free); n > 0 {
		number = r.free[n-1]
		r.free = r.free[:n-1]
	} else {
		number = uint32(len(r.slots))
		r.slots = append(r.slots, slot{})
	}
	place := &r.slots[number]
	place.serial++
	s := &Session{
		reactor:   r,
		conn:      conn,
		listener:  listener,
		ref:       mail.ConnRef{Slot: number, Serial: place.serial},
		Principal: Anonymous,
		opened:    r.now,
		heard:     r.now,
	}
	place.session = s
	r.stats.ConnectionsOpened++
	r.stats.Connections++
	return s
}

// session finds who an answer is for; nil when the connection is gone.
func (r *Reactor) session(ref mail.ConnRef) *Session {
	if int(ref.Slot) >= len(r.slots) {
		return nil
	}
	place := &r.slots[ref.Slot]
	if place.serial != ref.Serial {
		return nil
	}
	return place.session
}

// release frees the slot of a session whose connection is gone.
func (r *Reactor) release(s *Session) {
	place := &r.slots[s.ref.Slot]
	core.Assert(place.session == s, "a slot is released by its session")
	place.session = nil
	r.free = append(r.free, s.ref.Slot)
	r.stats.Connections--
	r.stats.ConnectionsClosed++
}

// shard is the owner of a partition.
func (r *Reactor) shard(partition core.PartitionID) core.ShardID {
	return core.ShardOf(partition, len(r.links))
}

// send passes a request to a shard, or returns false when the ring and the
// backlog are full; the caller answers OVERLOADED and nothing was taken.
func (r *Reactor) send(shard core.ShardID, request *mail.Request) bool {
	backlog := &r.backlogs[shard]
	if backlog.len() >= backlogRequestsMax {
		return false
	}
	r.must(shard, request)
	return true
}

// must passes a request that cannot be refused: something given back, something
// ended. There is at most one for each thing that was lent or begun before, which
// bounds them.
func (r *Reactor) must(shard core.ShardID, request *mail.Request) {
	request.Reactor = r.index
	backlog := &r.backlogs[shard]
	if backlog.len() > 0 || !r.links[shard].Requests.Stage(*request) {
		backlog.push(*request)
		return
	}
	r.unpublished[shard] = true
}

// giveBack returns a parcel to the shard that it is from.
func (r *Reactor) giveBack(shard core.ShardID, parcel *mail.Parcel) {
	if parcel != nil {
		r.must(shard, &mail.Request{Kind: mail.RequestReturn, Parcel: parcel})
	}
}

// Flush ends an event: what was sent is shown to the shards, what was answered
// is written to the sockets. When something waits for room it says after how many
// nanoseconds the next Turn is wanted although nothing else happens, else 0.
func (r *Reactor) Flush() (wait int64) {
	if r.flushing { // a write failed, and its session says goodbye
		return 0
	}
	r.flushing = true
	again := false
	for i := 0; i < len(r.dirty); i++ { // a flush may make others dirty
		s := r.dirty[i]
		s.dirty = false
		s.flush()
	}
	clear(r.dirty)
	r.dirty = r.dirty[:0]
	for i, link := range r.links {
		backlog := &r.backlogs[i]
		for backlog.len() > 0 && link.Requests.Stage(*backlog.front()) {
			backlog.pop()
			r.unpublished[i] = true
		}
		again = again || backlog.len() > 0
		if r.unpublished[i] {
			r.unpublished[i] = false
			link.Requests.Publish()
			link.Shard.Kick()
		}
	}
	r.flushing = false
	switch {
	case again || len(r.starved) > 0:
		return roomWait
	case len(r.blocked) > 0:
		return roomWait << min(r.looks, roomWaitShiftMax)
	}
	return 0
}

// Turn takes answers out of the rings, looks after what waits for room, and
// flushes. Its result is Flush's.
func (r *Reactor) Turn() (wait int64) {
	r.begin()
	for shard, link := range r.links {
		for taken := 0; ; {
			n := link.Answers.PopBatch(r.batch[:])
			for i := range r.batch[:n] {
				r.deliver(core.ShardID(shard), &r.batch[i])
			}
			clear(r.batch[:n])
			if n < len(r.batch) {
				break
			}
			if taken += n; taken >= answersPerTurn {
				link.Reactor.Kick() // the rest has the next turn
				break
			}
		}
	}
	r.unblock()
	r.feed()
	wait = r.Flush()
	r.publish()
	return wait
}

// deliver hands one answer to its session.
func (r *Reactor) deliver(shard core.ShardID, a *mail.Answer) {
	s := r.session(a.Conn)
	if s == nil || s.state != stateOpen {
		r.giveBack(shard, a.Parcel)
		return
	}
	s.answer(shard, a)
}

// unblock looks whether sockets have taken what was written to them.
func (r *Reactor) unblock() {
	r.looks++
	kept := r.blocked[:0]
	for _, s := range r.blocked {
		switch {
		case s.state == stateClosed:
			s.blocked = false
		case s.conn.Buffered() == 0:
			s.blocked = false
			r.looks = 0
			s.unblocked()
		default:
			kept = append(kept, s)
		}
	}
	clear(r.blocked[len(kept):])
	r.blocked = kept
}

// feed lets requests on that are scattered to many partitions and found no room.
func (r *Reactor) feed() {
	waiting := r.starved
	r.starved = nil
	for _, sc := range waiting {
		sc.starved = false
		sc.pump()
	}
}

// Tick is called about ten times a second: deadlines, keepalive, windows.
func (r *Reactor) Tick() (wait int64) {
	r.begin()
	for i := range r.slots {
		if s := r.slots[i].session; s != nil {
			s.tick()
		}
	}
	r.rebalance()
	return r.Turn()
}

// Drain begins the end: requests that arrive from now on are refused with
// SHUTTING_DOWN, those under way are still answered.
func (r *Reactor) Drain() {
	r.draining = true
}

// Drained says whether no request is under way and no answer waits to be sent.
func (r *Reactor) Drained() bool {
	for i := range r.slots {
		if s := r.slots[i].session; s != nil && !s.drained() {
			return false
		}
	}
	return true
}

// buffer lends an empty buffer.
func (r *Reactor) buffer() []byte {
	if n := len(r.buffers); n > 0 {
		b := r.buffers[n-1]
		r.buffers[n-1] = nil
		r.buffers = r.buffers[:n-1]
		return b[:0]
	}
	return make([]byte, 0, 4<<10)
}

const (
	// buffersSpareMax and bufferSpareBytesMax bound what is kept for the next user.
	buffersSpareMax     = 64
	bufferSpareBytesMax = 256 << 10
)

// recycle takes a buffer back.
func (r *Reactor) recycle(b []byte) {
	if cap(b) > 0 && cap(b) <= bufferSpareBytesMax && len(r.buffers) < buffersSpareMax {
		r.buffers = append(r.buffers, b)
	}
}

// errOverloaded is the refusal when there is no room. It is shared and never changed.
var errOverloaded = &proto.Error{Code: proto.CodeOverloaded, Text: "the broker has no room for the request now", WaitMs: overloadedWaitMs}

var errShuttingDown = &proto.Error{Code: proto.CodeShuttingDown, Text: "the broker is shutting down; connect to another broker or later"}
