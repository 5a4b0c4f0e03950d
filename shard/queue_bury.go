package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/queue"
)

// A group is the window that its burial works for.
var _ mourned = (*queueGroup)(nil)

// bury goes on with the records that are on their way to the dead-letter topic.
func (q *queueGroup) bury() {
	if q.window.Dying() == 0 {
		return
	}
	if q.burial == nil {
		q.burial = newBurial(q.partition, q.name, q)
	}
	q.burial.stir()
}

// endBurial says that the window is no more: what is on its way to the dead-letter topic ends nothing in the next one.
func (q *queueGroup) endBurial() {
	if q.burial != nil {
		q.burial.end()
		q.burial = nil
	}
}

// hurryBurials says that the topic's settings have changed.
func (p *partition) hurryBurials() {
	if p.cursors == nil {
		return
	}
	for _, q := range p.cursors.queueList {
		if q.burial != nil {
			q.burial.hurry()
		}
	}
}

func (q *queueGroup) dying(list []queue.Burial, number uint64, most int) []queue.Burial {
	return q.window.AppendDying(list, number, most)
}

func (q *queueGroup) producer() core.ProducerID {
	return burialProducer(q.partition.id, q.name, q.window.Identity())
}

func (q *queueGroup) laid(ops []queue.Op) {
	for _, op := range ops {
		q.add(op)
	}
}
