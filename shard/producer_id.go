package shard

import (
	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// producerIDs gives out ids from blocks that the metadata log has reserved for
// this node. What is left of a block when the broker stops is never used.
type producerIDs struct {
	next, end core.ProducerID
	reserving bool
	waiting   core.Queue[*patience]
}

// initProducer answers with the next id, after a reservation when the block is empty.
func (a *admin) initProducer(r *mail.Request) *proto.Error {
	ids := &a.ids
	if ids.next == ids.end {
		if ids.waiting.Len() >= producerRequestsMax {
			return errOverloadedAdmin
		}
		if err := a.reserve(); err != nil {
			return err
		}
		waiting := new(patience)
		a.machine.await(waiting, r)
		ids.waiting.Push(waiting)
		return nil
	}
	ids.answer(a.machine, r)
	return nil
}

// reserve asks for another block, unless one is on its way.
func (a *admin) reserve() *proto.Error {
	if a.ids.reserving {
		return nil
	}
	command := &cluster.ProducerReserve{Node: a.machine.options.Rules.Node, Count: core.ProducerIDBlock}
	if err := a.submit(&change{admin: a, command: command}); err != nil {
		return err
	}
	a.ids.reserving = true
	return nil
}

func (ids *producerIDs) answer(m *Machine, r *mail.Request) {
	m.answerAdmin(r, &proto.InitProducerResponse{ProducerID: int64(ids.next)})
	ids.next++
}

// reserved takes a block that is durable and answers who waited for it.
func (ids *producerIDs) reserved(m *Machine, c cluster.Change) {
	ids.next, ids.end = c.ProducerFirst, c.ProducerFirst+core.ProducerID(c.ProducerCount)
	ids.reserving = false
	for ids.waiting.Len() > 0 && ids.next < ids.end {
		if waiting := ids.waiting.Pop(); waiting.end() {
			ids.answer(m, &waiting.request)
		}
	}
	if ids.waiting.Len() > 0 { // more waited than a block holds
		if err := m.admin.reserve(); err != nil {
			ids.refuse(m, err)
		}
	}
}

// refuse ends the wait of those whose block will not come.
func (ids *producerIDs) refuse(m *Machine, err *proto.Error) {
	ids.reserving = false
	for ids.waiting.Len() > 0 {
		if waiting := ids.waiting.Pop(); waiting.end() {
			m.refuseRequest(&waiting.request, err)
		}
	}
}
