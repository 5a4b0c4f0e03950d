package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// fetch is one FETCH from its arrival until the last parcel of its answer is back.
//
// Invariant: it is in exactly one of: the partition's waiters (waiting >= 0), a
// queue of the machine or of its peer (queued), the store (reading), the reactor
// (out). done means that it is over and only waits to surface from where it is.
type fetch struct {
	read      segment.Read
	timer     timer
	partition *partition
	peer      *peer
	place     int // in peer.fetches

	conn     mail.ConnRef
	id       uint64
	reactor  uint8
	received int64

	offset      core.Offset
	lastEpoch   core.LeaderEpoch // of the last record that the client read or was sent; -1: not known
	bytesLeft   int
	recordsLeft int
	bytesMin    int
	deadline    int64
	wakeBytes   int64 // of partition.appendedBytes, from which there may be enough

	waiting int // place in partition.waiters, or -1
	queued  bool
	reading bool
	out     bool
	done    bool
	late    bool // its wait is over: answer with what is there
	sent    bool // a chunk has been answered with More
	held    int64
}

// fetch takes one FETCH. It is read when the turn is flushed, with all others.
func (m *Machine) fetch(r *mail.Request) {
	m.stats.Fetches++
	p, err := m.serve(r.Partition, r.LeaderEpoch)
	var owner *peer
	if err == nil {
		if err = p.readableAt(r.Offset, r.LastEpoch); err == nil {
			owner = m.peer(r)
			if len(owner.fetches) >= fetchesPerPeerMax {
				err = errOverloadedPeer
			}
		}
	}
	if err != nil {
		m.refuseRequest(r, err)
		return
	}
	f := m.pools.fetch()
	f.partition, f.conn, f.id, f.reactor, f.received = p, r.Conn, r.ID, r.Reactor, r.Received
	f.offset, f.lastEpoch, f.waiting = r.Offset, r.LastEpoch, -1
	f.bytesLeft = limited(r.BytesMax, m.options.FetchBytesMax)
	f.recordsLeft = limited(r.RecordsMax, m.options.FetchRecordsMax)
	f.bytesMin = min(int(r.BytesMin), f.bytesLeft, core.AnswerChunkBytesMax)
	f.deadline = max(r.Received, m.now-int64(m.options.FetchWaitMax)) + min(max(r.Wait, 0), int64(m.options.FetchWaitMax))
	f.late = f.bytesMin == 0 || f.deadline <= m.now
	owner.addFetch(f)
	f.enqueue()
}

// limited is what was asked for, at most the limit; 0 asks for the limit.
func limited(asked uint32, limit int) int {
	if asked == 0 || int64(asked) > int64(limit) {
		return limit
	}
	return int(asked)
}

func (f *fetch) enqueue() {
	f.queued = true
	f.partition.machine.runnable.Push(f)
}

// run reads the next chunk, or waits for data.
func (f *fetch) run() {
	p := f.partition
	m := p.machine
	if f.done {
		m.pools.putFetch(f)
		return
	}
	if err := f.servable(); err != nil {
		f.fail(err)
		return
	}
	if f.offset >= p.highWatermark() {
		f.waitFor(0)
		return
	}
	want := f.want()
	switch {
	case p.exhausted():
		f.enqueue()
		return
	case !m.readableFor(f.peer, want):
		f.starve(&f.peer.starved)
		return
	case !m.readable(want):
		f.starve(&m.starved)
		return
	}
	f.begin(want)
	if m.store.Read(&f.read) {
		f.ReadDone(&f.read)
	}
}

// begin takes what one chunk may need and says what is to be read for it.
func (f *fetch) begin(want int64) {
	f.held = want
	f.partition.machine.hold(f.peer, f.held)
	f.reading = true
	f.read.Log, f.read.Offset, f.read.Limit = f.partition.log, f.offset, f.partition.highWatermark()
	f.read.BytesMax, f.read.RecordsMax, f.read.Owner = int(want), f.recordsLeft, f
}

// want is how much the next read may take.
func (f *fetch) want() int64 {
	if f.done {
		return 0
	}
	return int64(min(f.bytesLeft, core.AnswerChunkBytesMax))
}

func (f *fetch) servable() *proto.Error {
	p := f.partition
	if p.gone {
		return proto.CodeUnknownTopic.Errorf("topic %s was deleted", p.topic.Name)
	}
	if p.machine.stopping {
		return errShuttingDown
	}
	return p.readableAt(f.offset, f.lastEpoch)
}

// ReadDone takes what the store found.
func (f *fetch) ReadDone(r *segment.Read) {
	p := f.partition
	m := p.machine
	f.reading = false
	if f.done {
		r.Release()
		f.unhold()
		m.pools.putFetch(f)
		return
	}
	if r.Err != nil || p.gone {
		err := p.readError(r)
		r.Release()
		f.unhold()
		f.fail(err)
		return
	}
	if r.Next > p.highWatermark() { // the durability was raised meanwhile: what has not reached it waits
		r.Release()
		f.unhold()
		f.enqueue()
		return
	}
	found := r.Bytes
	p.spent(found)
	if !f.sent && !f.late && found < f.bytesMin && r.Next >= p.highWatermark() && found < f.bytesLeft {
		r.Release()
		f.unhold()
		f.waitFor(found)
		return
	}
	if f.sent && (found > f.bytesLeft || r.Records > f.recordsLeft) {
		// Only the first batch of an answer may be larger than the limits.
		r.Release()
		f.unhold()
		f.answerEmpty()
		return
	}
	if found == 0 { // nothing but frames without records between offset and limit
		// What the client read last says nothing of what is skipped here, which may be of later epochs.
		f.offset, f.lastEpoch = max(f.offset, r.Next), -1
		r.Release()
		f.unhold()
		if f.offset < p.highWatermark() {
			f.enqueue()
		} else {
			f.waitFor(0)
		}
		return
	}
	f.answer(r)
}

// answer sends one chunk.
func (f *fetch) answer(r *segment.Read) {
	p := f.partition
	m := p.machine
	p.read(r)
	m.settleHold(f.peer, int64(r.Bytes), f.held)
	f.held = int64(r.Bytes)
	f.offset, f.lastEpoch = r.Next, core.LeaderEpoch(r.Term) // the log may be cut before the next chunk
	// Another chunk follows when it was the chunk that ended this one, and not what
	// the client asked for.
	chunked := r.BytesMax < f.bytesLeft
	f.bytesLeft -= r.Bytes
	f.recordsLeft -= r.Records
	f.sent = chunked && f.bytesLeft > 0 && f.recordsLeft > 0 && f.offset < p.highWatermark()
	f.out = true
	parcel := m.pack(r)
	parcel.Owner = f
	m.fetchAnswer(f, parcel)
	if !f.sent {
		f.end()
	}
}

func (m *Machine) fetchAnswer(f *fetch, parcel *mail.Parcel) {
	p := f.partition
	m.answer = mail.Answer{
		Kind: mail.AnswerFetch, More: f.sent && parcel != nil, Conn: f.conn, ID: f.id,
		Partition: p.id, LeaderEpoch: p.leaderEpoch(), Offset: f.offset, Timestamp: -1,
		LogStartOffset: p.log.StartOffset(), HighWatermark: p.highWatermark(), LogEndOffset: p.log.EndOffset(),
		Received: f.received, Parcel: parcel,
	}
	m.send(f.reactor)
}

func (f *fetch) answerEmpty() {
	f.partition.machine.fetchAnswer(f, nil)
	f.end()
}

// fail answers the fetch with an error.
func (f *fetch) fail(err *proto.Error) {
	p := f.partition
	p.machine.refuse(f.reactor, f.conn, f.id, p.id, f.received, err)
	f.end()
}

// end takes the fetch off its connection; it is given back when it surfaces.
func (f *fetch) end() {
	m := f.partition.machine
	f.done = true
	m.wheel.disarm(&f.timer)
	f.peer.removeFetch(f)
	m.releasePeer(f.peer)
	if !f.queued && !f.reading && !f.out {
		m.pools.putFetch(f)
	}
}

// cancel ends the fetch without an answer: its connection is gone.
func (f *fetch) cancel() {
	if f.waiting >= 0 {
		f.leave()
	}
	f.end()
}

func (f *fetch) unhold() {
	held := f.held
	f.held = 0
	f.partition.machine.unhold(f.peer, held)
}

// returned goes on when a chunk has left for its socket.
func (f *fetch) returned(int64) {
	f.out = false
	f.unhold()
	if f.done {
		f.partition.machine.pools.putFetch(f)
		return
	}
	f.enqueue()
}
