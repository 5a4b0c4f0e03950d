package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// answersPerTurn bounds what one turn takes out of each answer ring, so that
	// sockets are read between turns.
	answersPerTurn = 1024

	// answersPerBatch is after how many answers their room goes back to the shard.
	answersPerBatch = 64

	// roomWait is after how many nanoseconds the reactor looks again whether there is
	// room in a ring or a socket has taken its output; a socket is looked at less and
	// less often, down to roomWait << roomWaitShiftMax.
	roomWait         = int64(1e6)
	roomWaitShiftMax = 5
)

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
		for backlog.Len() > 0 && link.Requests.Stage(*backlog.Front()) {
			backlog.Pop()
			r.unpublished[i] = true
		}
		again = again || backlog.Len() > 0
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
		taken := 0
		for ; taken < answersPerTurn; taken++ {
			a := link.Answers.Peek()
			if a == nil {
				break
			}
			r.deliver(core.ShardID(shard), a)
			link.Answers.Drop()
			if taken%answersPerBatch == answersPerBatch-1 {
				link.Answers.Free()
			}
		}
		link.Answers.Free()
		if taken == answersPerTurn {
			link.Reactor.Kick() // the rest has the next turn
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
