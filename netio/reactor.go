package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
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
	backlogs []core.Queue[mail.Request]
	// unpublished marks links with requests that the shard has not been shown.
	unpublished []bool

	dirty   []*Session // with output to be written at the end of the event
	blocked []*Session // whose output did not all fit the socket
	starved []*scatter // that found every way full and wait for the next turn

	packs   []pack       // by shard, of the current event
	packing bool         // one of packs has a slab
	request mail.Request // being filled in, with a backlog before it; zero otherwise

	scatterResults int // of all requests that are being gathered

	flushing bool // inside Flush
	looks    int  // at the blocked sessions since one of them was unblocked
	draining bool // the broker is shutting down: new requests are refused

	batchesSeen uint64 // at the last tick
	idleSince   int64  // no batch has come since

	slices  [core.AnswerSlicesMax][]byte
	buffers [][]byte // spare output and input buffers
	ids     []uint64 // of one session's subscriptions, while they are gone through
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
		backlogs:    make([]core.Queue[mail.Request], len(o.Links)),
		unpublished: make([]bool, len(o.Links)),
		packs:       make([]pack, len(o.Links)),
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

// Tick is called about ten times a second: deadlines, keepalive, windows.
func (r *Reactor) Tick() (wait int64) {
	r.begin()
	for i := range r.slots {
		if s := r.slots[i].session; s != nil {
			s.tick()
		}
	}
	r.rebalance()
	r.trim()
	return r.Turn()
}
