package shard

import (
	"github.com/pulsemq/pulsemq/core"
)

// waitFor hangs the fetch on its partition until there is more than the bytes
// that were found, or answers with nothing when its time is over.
func (f *fetch) waitFor(found int) {
	p := f.partition
	if f.late || f.sent {
		f.answerEmpty()
		return
	}
	f.wakeBytes = 0
	if p.topic.Config.Durability != core.DurabilityNone && p.highWatermark() >= p.hidden {
		// What is appended and not yet visible counts as new: it is not in found. How
		// much of it was acked before a raised durability hid it is not known.
		f.wakeBytes = p.appendedBytes - p.pendingBytes + int64(f.bytesMin-found)
	}
	f.waiting = len(p.waiters)
	p.waiters = append(p.waiters, f)
	p.machine.wheel.arm(&f.timer, f, f.deadline)
}

// leave takes the fetch off its partition.
func (f *fetch) leave() {
	p := f.partition
	last := len(p.waiters) - 1
	p.waiters[f.waiting] = p.waiters[last]
	p.waiters[f.waiting].waiting = f.waiting
	p.waiters[last] = nil
	p.waiters = p.waiters[:last]
	f.waiting = -1
	p.machine.wheel.disarm(&f.timer)
}

// expire ends the wait: for data it is answered with what is there, for memory
// with OVERLOADED.
func (f *fetch) expire() {
	if f.waiting >= 0 {
		f.leave()
		f.late = true
		f.enqueue()
		return
	}
	f.fail(errOverloadedRead)
}

// starve waits for memory that other answers hold.
func (f *fetch) starve(behind *core.Queue[*fetch]) {
	m := f.partition.machine
	m.stats.Starved++
	f.queued = true
	behind.Push(f)
	if !f.sent && !f.timer.armed {
		m.wheel.arm(&f.timer, f, max(f.deadline, m.now+int64(starveMax)))
	}
}

// starveMax is the least that a fetch waits for memory before it is refused.
const starveMax = 1e9

// resumeMax bounds how many of those who wait for memory try again at a time.
const resumeMax = 16

// resumePeer gives those who wait for a connection's share of the memory another
// try, when some of it has come back. With all of it back all of them try,
// because nothing would call again.
func (m *Machine) resumePeer(p *peer) {
	most := resumeMax
	if p.parcelBytes == 0 {
		most = max(p.starved.Len(), p.hungry.Len(), p.parched.Len())
	}
	for n := min(most, p.starved.Len()); n > 0; n-- {
		m.runnable.Push(p.starved.Pop()) // stays queued
	}
	for n := min(most, p.hungry.Len()); n > 0; n-- {
		m.pushable.Push(p.hungry.Pop())
	}
	for n := min(most, p.parched.Len()); n > 0; n-- {
		l := p.parched.Pop()
		l.parched = false
		l.offer()
	}
}

// resume lets those on who have waited longest for the shard's memory, while there
// is room for the first of them. Whoever finds then that the share of its own
// connection is used up waits there, and not before the others.
func (m *Machine) resume() {
	for n := 0; n < resumeMax && m.reads < readBytesPerTurn && m.starvedFits(); n++ {
		f := m.starved.Pop()
		f.queued = false
		f.run()
	}
	for n := 0; n < resumeMax && m.reads < readBytesPerTurn && m.hungryFits(); n++ {
		s := m.hungry.Pop()
		s.queued = false
		s.run()
	}
	for n := 0; n < resumeMax && m.reads < readBytesPerTurn && m.parchedFits(); n++ {
		m.parched.Pop().run()
	}
}

func (m *Machine) starvedFits() bool {
	return m.starved.Len() > 0 && m.readable((*m.starved.Front()).want())
}

func (m *Machine) parchedFits() bool {
	return m.parched.Len() > 0 && m.readable(queueGrantBytes)
}

func (m *Machine) hungryFits() bool {
	return m.hungry.Len() > 0 && m.readable((*m.hungry.Front()).want())
}
