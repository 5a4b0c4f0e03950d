package main

import (
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/proto"
)

// topic is a topic as its clients know it.
type topic struct {
	world  *world
	number int
	name   string
	id     [16]byte
	made   bool
	logs   []*plog

	level    proto.Durability // that every answer since the last change has had; see certain
	certain  bool             // no change of the durability is under way or in doubt
	wasWeak  bool             // has ever been below sync
	raised   bool             // has ever been raised, which takes the high watermark back to what is synced
	stamps   bool             // the broker sets the times
	forgets  bool             // retention may remove records
	deleting bool             // a deletion was asked for
	deleted  bool             // and may have happened
	changes  int              // of the durability under way
	growing  bool             // a partition is being added
	queue    *queueRules      // how queue groups treat its records; nil: nobody has said
	configs  []proto.TopicConfig
}

// firm says whether what a consumer is shown now may never vanish.
func (t *topic) firm() bool { return t.certain && t.level == proto.DurabilitySync && !t.wasWeak }

// hasNamesake says whether another topic has had the name, too.
func (t *topic) hasNamesake() bool {
	return slices.ContainsFunc(t.world.topics, func(other *topic) bool { return other != t && other.name == t.name })
}

// shaky says whether records may vanish although no process has ended: a failed write takes a weaker topic back.
func (t *topic) shaky() bool { return t.wasWeak && (t.world.plan.diskFaults || t.world.plan.fullDisk) }

func (w *world) newTopic() *topic {
	t := &topic{world: w, number: len(w.topics), certain: true, level: proto.DurabilitySync}
	t.name = fmt.Sprintf("t%d", t.number)
	set := func(key, value string) { t.configs = append(t.configs, proto.TopicConfig{Key: key, Value: value}) }
	switch w.random.IntN(5) {
	case 0:
		t.level = proto.DurabilityBatch
		set("durability", "batch")
		set("flush.ms", fmt.Sprint(1+w.random.IntN(500)))
	case 1:
		t.level = proto.DurabilityNone
		set("durability", "none")
	}
	t.wasWeak = t.level < proto.DurabilitySync
	if w.random.IntN(6) == 0 {
		set("message.timestamp.type", "append")
		t.stamps = true
	}
	switch w.random.IntN(6) {
	case 0:
		t.forgets = true
		set("retention.bytes", fmt.Sprint(max(1<<20, w.plan.segmentBytes*2)))
	case 1:
		set("retention.ms", "3600000") // longer than a run takes: nothing may go
	}
	for range 1 + w.random.IntN(3) {
		t.addLog()
	}
	w.topics = append(w.topics, t)
	return t
}

func (t *topic) addLog() *plog {
	l := &plog{world: t.world, topic: t, number: uint32(len(t.logs)), sent: map[uint32][]*attempt{}}
	t.logs = append(t.logs, l)
	t.world.ledger.logs = append(t.world.ledger.logs, l)
	return l
}

// partition draws one that exists, or nil.
func (w *world) partition() *plog {
	var made []*topic
	for _, t := range w.topics {
		if t.made && !t.deleting {
			made = append(made, t)
		}
	}
	if len(made) == 0 {
		return nil
	}
	t := made[w.random.IntN(len(made))]
	return t.logs[w.random.IntN(len(t.logs))]
}
