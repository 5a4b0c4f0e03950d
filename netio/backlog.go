package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// backlogRequestsMax bounds the refusable requests that wait for room in the ring
	// of one shard. With the ring full and this many waiting, the shard is far
	// behind and OVERLOADED is the honest answer.
	backlogRequestsMax = 1024

	// overloadedWaitMs is what a client is told to wait after OVERLOADED: long
	// enough for a full ring to drain, short enough not to idle a producer.
	overloadedWaitMs = 50
)

// send passes a request to a shard, or returns false when the ring and the
// backlog are full; the caller answers OVERLOADED and nothing was taken.
func (r *Reactor) send(shard core.ShardID, request *mail.Request) bool {
	if !r.admits(shard) {
		return false
	}
	r.must(shard, request)
	return true
}

// admits says whether send would take a request.
func (r *Reactor) admits(shard core.ShardID) bool {
	return r.backlogs[shard].Len() < backlogRequestsMax
}

// must passes a request that cannot be refused: something given back, something
// ended. There is at most one for each thing that was lent or begun before, which
// bounds them.
func (r *Reactor) must(shard core.ShardID, request *mail.Request) {
	request.Reactor = r.index
	backlog := &r.backlogs[shard]
	if backlog.Len() > 0 || !r.links[shard].Requests.Stage(*request) {
		backlog.Push(*request)
		return
	}
	r.unpublished[shard] = true
}

// place shows where the next request for a shard can be filled in: where the ring
// has it, or, with a backlog before it, in a place of the reactor's. It is zero. To
// make a request elsewhere and copy it would cost more than the request: the copy
// reads with wide loads what narrow stores have just written, and has to wait until
// all stores before them, into a cold slab, have left the processor's queue.
func (r *Reactor) place(shard core.ShardID) *mail.Request {
	if r.backlogs[shard].Len() == 0 {
		if slot := r.links[shard].Requests.Room(); slot != nil {
			return slot
		}
	}
	return &r.request
}

// placed passes the request that was filled in where place said.
func (r *Reactor) placed(shard core.ShardID, q *mail.Request) {
	q.Reactor = r.index
	if q == &r.request {
		r.backlogs[shard].Push(*q)
		*q = mail.Request{}
		return
	}
	r.links[shard].Requests.Fill()
	r.unpublished[shard] = true
}

// giveBack returns a parcel to the shard that it is from.
func (r *Reactor) giveBack(shard core.ShardID, parcel *mail.Parcel) {
	if parcel != nil {
		r.must(shard, &mail.Request{Kind: mail.RequestReturn, Parcel: parcel})
	}
}

// errOverloaded is the refusal when there is no room. It is shared and never changed.
var errOverloaded = &proto.Error{Code: proto.CodeOverloaded, Text: "the broker has no room for the request now", WaitMs: overloadedWaitMs}
