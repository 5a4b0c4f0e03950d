package shard

import (
	"slices"
	"strings"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/cursor"
)

// What a page shows of groups is made beside the shard's work, so its cost is bounded: a pass
// goes through the committed offsets in steps, and shows the groups that come first by name.
// The others are added up.

// GroupLag is how far a group is behind in the partitions of a shard.
type GroupLag struct {
	Group      string
	Partitions int   // that it has committed to, or owns
	Records    int64 // that it has not committed
	Nanos      int64 // since the oldest of them was stored; see lagMarks
}

func (g *GroupLag) add(o *GroupLag) {
	g.Partitions += o.Partitions
	g.Records += o.Records
	g.Nanos = max(g.Nanos, o.Nanos)
}

const (
	// GroupsShownMax bounds the groups that a snapshot shows one by one: the first by name,
	// so that they stay the same.
	GroupsShownMax = 1_000

	// lagEntriesNow bounds the offsets that a snapshot looks at before it is handed out,
	// lagEntriesMax those of a step between two turns.
	lagEntriesNow = 4_000
	lagEntriesMax = 2_000
	lagStepNanos  = int64(4 * time.Millisecond)
)

// lagPass adds up what groups are behind.
//
// Invariants: sums are in the order of names, byName holds the same; what was pushed out by
// names before its own is in others.
type lagPass struct {
	machine *Machine
	timer   timer // of the next step
	running bool
	next    int // of machine.cursorPartitions
	sums    []*GroupLag
	byName  map[string]*GroupLag
	others  GroupLag
	behind  []lagging   // of one partition, used again
	oldest  core.Offset // of what was found in the partition at next; its end at first
	halfway bool        // some groups of that partition were looked at

	done       []GroupLag // of the last whole pass, in the order of names; never changed
	doneOthers GroupLag

	queues          queueSums
	doneQueues      []GroupQueue // likewise
	doneQueueOthers GroupQueue

	looks lagLooks
}

// lagging is a group that has not committed everything.
type lagging struct {
	group string
	at    core.Offset // the first that is not committed
}

// lags goes on with the pass, or begins one, and returns what the last whole one found. A machine
// that stops begins nothing: its disk is closed when what was under way has ended.
func (m *Machine) lags() (groups []GroupLag, others GroupLag) {
	pass := &m.lag
	if m.stopping {
		return pass.done, pass.doneOthers
	}
	if !pass.running {
		pass.machine, pass.running, pass.next = m, true, 0
		pass.byName, pass.others = make(map[string]*GroupLag), GroupLag{}
		pass.looks.begin()
	}
	pass.step(lagEntriesNow)
	return pass.done, pass.doneOthers
}

// expire goes on with a pass that was too long for its snapshot.
func (l *lagPass) expire() {
	if !l.machine.stopping {
		l.step(lagEntriesMax)
	}
}

func (l *lagPass) step(entries int) {
	m := l.machine
	for entries > 0 {
		if l.next >= len(m.cursorPartitions) {
			l.end()
			return
		}
		entries -= 1 + l.look(m.cursorPartitions[l.next], entries)
	}
	m.wheel.arm(&l.timer, l, m.now+lagStepNanos)
}

// dropped keeps the pass where it is when a partition is taken off the list.
func (l *lagPass) dropped(place int) {
	switch {
	case place < l.next:
		l.next--
	case place == l.next:
		l.halfway = false
	}
}

// look adds groups of the partition at next, up to a number, and returns how many. When it has
// added all, it goes on to the next partition.
func (l *lagPass) look(p *partition, most int) (looked int) {
	end, start, now := p.highWatermark(), p.log.StartOffset(), l.machine.now
	marks, table := &p.cursors.marks, &p.cursors.table
	marks.note(end, now)
	if !l.halfway {
		l.oldest = end
	}
	l.behind = l.behind[:0]
	all := table.Walk(most, func(group string, s *cursor.State) { // sums alone: no order shows
		looked++
		at := max(core.Offset(s.Offset), start) // with nothing committed, all is behind
		l.sum(group).add(&GroupLag{Partitions: 1, Records: max(0, int64(end-at))})
		l.addQueue(p, group)
		if at < end {
			l.behind = append(l.behind, lagging{group, at})
		}
	})
	for i := range l.behind {
		l.oldest = min(l.oldest, l.behind[i].at)
		if _, doubt := marks.age(l.behind[i].at, now); doubt {
			l.looks.want(l.behind[i].at)
		}
	}
	l.looks.ask(p, l.next)
	for i := range l.behind {
		age, _ := marks.age(l.behind[i].at, now)
		l.sum(l.behind[i].group).add(&GroupLag{Nanos: age})
	}
	if l.halfway = !all; all {
		marks.trim(l.oldest)
		l.next++
	}
	return looked
}

// sum is what a group is added to.
func (l *lagPass) sum(group string) *GroupLag {
	if sum := l.byName[group]; sum != nil {
		return sum
	}
	last := len(l.sums) - 1
	if len(l.sums) == GroupsShownMax {
		if group > l.sums[last].Group {
			return &l.others
		}
		l.others.add(l.sums[last])
		l.queues.pushOut(l.sums[last])
		delete(l.byName, l.sums[last].Group)
		l.sums = l.sums[:last]
	}
	sum := &GroupLag{Group: group}
	i, _ := slices.BinarySearchFunc(l.sums, group, func(s *GroupLag, group string) int { return strings.Compare(s.Group, group) })
	l.sums = slices.Insert(l.sums, i, sum)
	l.byName[group] = sum
	return sum
}

func (l *lagPass) end() {
	l.running = false
	l.done = make([]GroupLag, len(l.sums))
	for i, sum := range l.sums {
		l.done[i] = *sum
	}
	l.doneOthers = l.others
	l.doneQueues, l.doneQueueOthers, l.queues = l.queues.shown(l.sums), l.queues.others, queueSums{}
	l.sums, l.byName, l.behind = nil, nil, nil
	l.looks.end()
}
