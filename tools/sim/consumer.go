package main

import (
	"github.com/pulsemq/pulsemq/proto"
)

// consumer reads one partition from a place on, by FETCH or by SUBSCRIBE.
type consumer struct {
	world     *world
	peer      *peer
	log       *plog
	pushes    bool
	at        int64
	lastEpoch int32
	credit    int64
	name      uint64   // of the subscription
	then      promises // when what is under way was asked for
	asking    bool
	ticking   bool
	stopped   bool
}

func (w *world) newConsumer(l *plog) *consumer {
	c := &consumer{world: w, log: l, pushes: w.random.IntN(2) == 0, lastEpoch: -1}
	c.peer = w.peer("consumer", w.nodes[0])
	c.peer.ready = c.run
	c.peer.gone = func() { c.name, c.asking = 0, false }
	c.peer.pushed = c.pushed
	c.peer.connect(w.between(0, 100e6))
	w.consumers = append(w.consumers, c)
	return c
}

func (c *consumer) tick() {
	if c.ticking || c.stopped {
		return
	}
	c.ticking = true
	c.world.after(c.world.between(5e6, 50e6), func() {
		c.ticking = false
		c.run()
	})
}

func (c *consumer) run() {
	defer c.tick()
	if !c.peer.open || c.asking || c.stopped || !c.log.topic.made || c.log.topic.deleting {
		return
	}
	w := c.world
	if c.pushes {
		if c.name == 0 {
			c.subscribe()
		}
		return
	}
	c.asking = true
	m := &proto.FetchRequest{
		TopicID: c.log.topic.id, Partition: c.log.number, LeaderEpoch: -1, Offset: c.at, LastEpoch: c.lastEpoch,
		MinBytes: uint32(w.random.IntN(3) * 100), MaxWaitMs: uint32(w.random.IntN(300)), MaxBytes: uint32([]int{0, 1, 1000, 100_000}[w.random.IntN(4)]),
	}
	at, epoch := c.at, c.lastEpoch
	c.then = c.log.promised()
	c.peer.ask(m, func(m proto.Message, e *proto.Error) {
		switch {
		case m != nil:
			m := m.(*proto.FetchResponse)
			w.note("fetched", c.log.key(), at, int64(len(m.Batches)), m.HighWatermark)
			c.log.bounds(m.LogStartOffset, m.HighWatermark, c.then)
			at, epoch = c.log.shown(m.Batches, at, epoch, m.HighWatermark, nil)
			c.at, c.lastEpoch = at, epoch
			c.asking = m.More
		case e != nil:
			c.asking = false
			c.failed(e)
		}
	})
}

func (c *consumer) subscribe() {
	w := c.world
	c.asking = true
	c.then = c.log.promised()
	c.credit = 1 + w.random.Int64N(200_000)
	m := &proto.SubscribeRequest{CreditBytes: uint64(c.credit), Add: []proto.SubscribePartition{{
		TopicID: c.log.topic.id, Partition: c.log.number, LeaderEpoch: -1, Offset: c.at, LastEpoch: c.lastEpoch, Cookie: 7,
	}}}
	c.name = c.peer.ask(m, func(m proto.Message, e *proto.Error) {
		if m == nil && e == nil {
			return
		}
		c.asking = false
		if e != nil {
			c.name = 0
			c.failed(e)
			return
		}
		if errors := m.(*proto.SubscribeResponse).Errors; len(errors) > 0 {
			c.leave()
			c.failed(&errors[0].Error)
		}
	})
}

// leave ends the subscription, so that the next look makes another.
func (c *consumer) leave() {
	if name := c.name; name != 0 && c.peer.wire != nil {
		c.asking = true
		c.name = 0
		c.peer.ask(&proto.SubscribeRequest{Subscription: name, Close: true}, func(m proto.Message, e *proto.Error) {
			if m != nil || e != nil {
				c.asking = false
			}
		})
	}
}

func (c *consumer) pushed(id uint64, m *proto.DeliverPush) {
	if id != c.name {
		return // of one that was left
	}
	w := c.world
	w.note("pushed", c.log.key(), c.at, int64(len(m.Batches)), m.HighWatermark)
	if m.Cookie != 7 || m.TopicID != c.log.topic.id || m.Partition != c.log.number {
		c.log.fail("was pushed something of topic %x partition %d with cookie %d", m.TopicID, m.Partition, m.Cookie)
		return
	}
	if m.Error != nil {
		w.sawError(c.peer, m.Error)
		c.leave()
		c.failed(m.Error)
		return
	}
	if c.credit <= 0 && len(m.Batches) > 0 {
		c.log.fail("was pushed %d bytes without credit", len(m.Batches))
	}
	c.credit -= int64(len(m.Batches))
	c.log.bounds(m.LogStartOffset, m.HighWatermark, c.then)
	c.at, c.lastEpoch = c.log.shown(m.Batches, c.at, c.lastEpoch, m.HighWatermark, nil)
	if c.credit < 50_000 && w.failed == nil && c.peer.wire != nil {
		more := 1 + w.random.Int64N(200_000)
		c.credit += more
		c.peer.tell(&proto.CreditRequest{Subscription: id, Bytes: uint64(more)})
	}
}

// failed goes where an error says.
func (c *consumer) failed(e *proto.Error) {
	w, l := c.world, c.log
	w.note("consumer error", l.key(), c.at, int64(e.Code))
	switch e.Code {
	case proto.CodeLogTruncated:
		if e.Truncation == nil {
			l.fail("LOG_TRUNCATED does not say where: %v", e)
			return
		}
		if end := e.Truncation.EndOffset; end > c.at || end < l.keptOf(c.lastEpoch, min(c.then.firmEnd, c.at)) {
			l.fail("a consumer at %d that has read epoch %d is told that the log was cut at %d; %d is durable", c.at, c.lastEpoch, end, c.then.firmEnd)
			return
		}
		w.counts.truncations++
		c.at, c.lastEpoch = e.Truncation.EndOffset, -1
	case proto.CodeOffsetOutOfRange:
		if e.Offsets == nil {
			l.fail("OFFSET_OUT_OF_RANGE does not say which there are: %v", e)
			return
		}
		l.bounds(e.Offsets.Earliest, -1, c.then)
		if e.Offsets.Latest < min(c.at, c.then.firmEnd) {
			l.fail("the latest offset is said to be %d, and everything up to %d is durable", e.Offsets.Latest, c.then.firmEnd)
		}
		if c.at > e.Offsets.Latest && c.lastEpoch >= 0 {
			l.fail("a consumer at %d that has read epoch %d is told that offsets end at %d, and not that the log was cut", c.at, c.lastEpoch, e.Offsets.Latest)
		}
		if c.at < e.Offsets.Earliest {
			c.at = e.Offsets.Earliest
		} else {
			c.at = e.Offsets.Latest
		}
		c.lastEpoch = -1
	case proto.CodeCorruptRecord:
		w.corrupt(l, e)
		if e.Damage != nil && e.Damage.NextOffset > c.at {
			c.at, c.lastEpoch = e.Damage.NextOffset, -1
		}
	case proto.CodeUnknownTopic:
		if !l.topic.deleting {
			l.fail("the topic is not known any more: %v", e)
		}
		c.stopped = true
	}
}
