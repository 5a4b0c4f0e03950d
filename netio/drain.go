package netio

import (
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

var errShuttingDown = &proto.Error{Code: proto.CodeShuttingDown, Text: "the broker is shutting down; connect to another broker or later"}

// Drain begins the end: requests that arrive from now on are refused with
// SHUTTING_DOWN, those under way are still answered. Fetches are not waited for:
// most of them wait for data that may never come.
func (r *Reactor) Drain() {
	if r.draining {
		return
	}
	r.begin()
	r.draining = true
	for i := range r.slots {
		if s := r.slots[i].session; s != nil {
			s.drain()
		}
	}
	r.Flush()
}

// Farewell tells every client that the broker is gone in a moment.
func (r *Reactor) Farewell() {
	r.begin()
	for i := range r.slots {
		if s := r.slots[i].session; s != nil {
			s.end(0, errShuttingDown)
		}
	}
	r.Flush()
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

// drain refuses the fetches that have not been answered.
func (s *Session) drain() {
	var ids []uint64
	for _, entry := range s.pendings.slots {
		if entry.used && entry.command == proto.CommandFetch {
			ids = append(ids, entry.id)
		}
	}
	slices.Sort(ids)
	s.told = make(map[uint64]struct{}, len(ids))
	for _, id := range ids {
		s.told[id] = struct{}{}
		s.withdraw(id)
		s.refuse(id, errShuttingDown)
	}
	s.parked = core.Queue[parkedFetch]{}
}

// drained says whether the session owes nobody anything.
func (s *Session) drained() bool {
	return s.state >= stateEnding || s.pendings.count == 0 && s.out.empty() && s.conn.Buffered() == 0
}
