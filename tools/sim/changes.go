package main

import (
	"fmt"

	"github.com/pulsemq/pulsemq/proto"
)

// changeLater has the admin do something to a topic again and again: ask, trim, change its settings, delete it.
func (a *admin) changeLater() {
	w := a.world
	w.faults.later(10e6, 250e6, func() {
		l := w.partition()
		if l == nil || len(a.to) > 3 {
			return
		}
		switch w.random.IntN(12) {
		case 0, 1, 2:
			a.trim(l)
		case 3, 4, 5:
			a.listOffsets(l)
		case 6, 7:
			a.describe(l.topic)
		case 8:
			a.durability(l.topic)
		case 9:
			a.forget(l.topic)
		case 10:
			a.grow(l.topic)
		case 11:
			if w.random.IntN(3) == 0 && len(w.topics) < 12 {
				a.replace(l.topic)
			}
		}
	})
}

// add queues a request that is sent once; what became of it is not asked.
func (a *admin) add(m func() proto.Message, done func(proto.Message, *proto.Error)) {
	a.to = append(a.to, func() {
		a.peer.ask(m(), func(m proto.Message, e *proto.Error) {
			done(m, e)
			a.done(false)
		})
	})
	a.next()
}

// insist queues a request that is sent until it is answered well; settled says which errors are as good.
func (a *admin) insist(m proto.Message, settled func(*proto.Error) bool, done func(proto.Message)) {
	a.to = append(a.to, func() {
		a.peer.ask(m, func(m proto.Message, e *proto.Error) {
			switch {
			case m != nil || e != nil && settled(e):
				done(m)
				a.done(false)
			case e != nil && !e.Code.Retriable():
				a.world.fail("the admin is told %v", e)
			default:
				a.done(true)
			}
		})
	})
	a.next()
}

func (a *admin) trim(l *plog) {
	w := a.world
	before := l.logStart + w.random.Int64N(max(1, l.highWatermark-l.logStart+2))
	l.trimmedTo = max(l.trimmedTo, before)
	a.add(func() proto.Message {
		return &proto.DeleteRecordsRequest{TopicID: l.topic.id, Partition: l.number, LeaderEpoch: -1, BeforeOffset: before}
	}, func(m proto.Message, e *proto.Error) {
		if m, ok := m.(*proto.DeleteRecordsResponse); ok {
			if m.LogStartOffset < before {
				l.fail("a trim to %d is answered with a log that starts at %d", before, m.LogStartOffset)
			}
			w.note("trimmed", l.key(), m.LogStartOffset)
			l.bounds(m.LogStartOffset, -1, promises{})
			l.trimSafe = max(l.trimSafe, before)
			w.counts.trims++
		}
	})
}

func (a *admin) listOffsets(l *plog) {
	w := a.world
	var then promises
	a.add(func() proto.Message {
		then = l.promised()
		item := proto.ListOffsetsItem{TopicID: l.topic.id, Partition: l.number, LeaderEpoch: -1}
		items := []proto.ListOffsetsItem{item, item, item, item}
		for i := range items {
			items[i].Kind = proto.OffsetKind(i)
		}
		items[2].TimestampMs = w.clock.Now()/1e6 - w.random.Int64N(3000)
		return &proto.ListOffsetsRequest{Items: items}
	}, func(m proto.Message, e *proto.Error) {
		response, ok := m.(*proto.ListOffsetsResponse)
		if !ok {
			return
		}
		if r := &response.Items[0]; !r.Error.Failed() {
			l.bounds(r.Offset, -1, then)
		}
		if r := &response.Items[1]; !r.Error.Failed() {
			l.bounds(-1, r.Offset, then)
		}
	})
}

func (a *admin) describe(t *topic) {
	var then []promises
	a.add(func() proto.Message {
		then = nil
		for _, l := range t.logs {
			then = append(then, l.promised())
		}
		return &proto.DescribeTopicRequest{TopicID: t.id}
	}, func(m proto.Message, e *proto.Error) {
		response, ok := m.(*proto.DescribeTopicResponse)
		if !ok {
			return
		}
		for i, p := range response.Partitions {
			if i < len(then) && !p.Error.Failed() {
				t.logs[i].bounds(p.LogStartOffset, p.HighWatermark, then[i])
				if p.LogEndOffset < p.HighWatermark || p.HighWatermark < p.LogStartOffset {
					t.logs[i].fail("is described as starting at %d, shown up to %d and ending at %d", p.LogStartOffset, p.HighWatermark, p.LogEndOffset)
				}
			}
		}
	})
}

// durability changes a topic's level.
func (a *admin) durability(t *topic) {
	level := proto.Durability(a.world.random.IntN(3))
	t.raised = t.raised || level > t.level || !t.certain
	t.certain = false
	t.wasWeak = t.wasWeak || level < proto.DurabilitySync
	t.changes++
	a.insist(&proto.AlterTopicRequest{TopicID: t.id, Set: []proto.TopicConfig{{Key: "durability", Value: level.String()}}}, t.gone, func(proto.Message) {
		t.level = level
		t.changes--
		t.certain = t.changes == 0
	})
}

// gone is an error that a topic may be answered with which is being deleted.
func (t *topic) gone(e *proto.Error) bool { return t.deleting && e.Code == proto.CodeUnknownTopic }

// forget lets retention remove records.
func (a *admin) forget(t *topic) {
	t.forgets = true
	a.insist(&proto.AlterTopicRequest{TopicID: t.id, Set: []proto.TopicConfig{{Key: "retention.bytes", Value: fmt.Sprint(1 << 20)}}}, t.gone, func(proto.Message) {})
}

// grow adds a partition.
func (a *admin) grow(t *topic) {
	w := a.world
	if len(t.logs) >= 5 || t.growing {
		return
	}
	t.growing = true
	want := uint32(len(t.logs) + 1)
	settled := func(e *proto.Error) bool { // sent again after it had been done
		return t.gone(e) || e.Code == proto.CodeInvalidPartitionCount
	}
	a.insist(&proto.AlterTopicRequest{TopicID: t.id, Partitions: want}, settled, func(proto.Message) {
		t.growing = false
		if t.deleting {
			return
		}
		l := t.addLog()
		w.newProducer(l)
		w.newConsumer(l)
	})
}

// replace deletes a topic and makes another, at times of the same name.
func (a *admin) replace(t *topic) {
	w := a.world
	t.deleting = true
	a.insist(&proto.DeleteTopicRequest{TopicID: t.id}, func(e *proto.Error) bool { return e.Code == proto.CodeUnknownTopic }, func(proto.Message) {
		t.deleted = true
		w.note("topic deleted", int64(t.number))
		next := w.newTopic()
		if w.random.IntN(2) == 0 {
			next.name = t.name
		}
		a.create(next)
		w.newProducer(next.logs[0])
		w.newConsumer(next.logs[0])
	})
}
