package main

import "github.com/pulsemq/pulsemq/proto"

// admin makes topics and changes them.
type admin struct {
	world *world
	peer  *peer
	to    []func() // what is to be done, one after the other
	busy  bool
}

func (w *world) newAdmin() *admin {
	a := &admin{world: w, peer: w.peer("admin", w.nodes[0])}
	a.peer.ready = a.next
	a.peer.connect(0)
	return a
}

func (a *admin) next() {
	if !a.busy && a.peer.open && len(a.to) > 0 {
		a.busy = true
		a.to[0]()
	}
}

// done goes on with the next thing, or with the same one again after a while.
func (a *admin) done(again bool) {
	a.busy = false
	if again {
		a.world.after(a.world.between(1e6, 30e6), a.next)
		return
	}
	a.to = a.to[1:]
	a.next()
}

// create makes a topic, however often it takes.
func (a *admin) create(t *topic) {
	a.to = append(a.to, func() {
		m := &proto.CreateTopicRequest{Name: t.name, Partitions: uint32(len(t.logs)), Replicas: 1, Configs: t.configs}
		a.peer.ask(m, func(m proto.Message, e *proto.Error) {
			switch {
			case m != nil:
				t.id, t.made = m.(*proto.CreateTopicResponse).TopicID, true
				a.world.note("topic", int64(t.number))
				a.done(false)
			case e != nil && e.Code == proto.CodeTopicExists:
				a.lookUp(t)
			case e != nil && !e.Code.Retriable():
				a.world.fail("create topic %s: %v", t.name, e)
			default:
				a.done(true)
			}
		})
	})
	a.next()
}

// lookUp finds the id of a topic whose creation was not answered.
func (a *admin) lookUp(t *topic) {
	m := &proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{t.name}}
	a.peer.ask(m, func(m proto.Message, e *proto.Error) {
		if m == nil {
			a.done(true)
			return
		}
		found := m.(*proto.MetadataResponse).Topics
		if len(found) != 1 || found[0].Error.Failed() || len(found[0].Partitions) != len(t.logs) {
			a.done(true) // the view is of a moment before
			return
		}
		t.id, t.made = found[0].TopicID, true
		a.done(false)
	})
}
