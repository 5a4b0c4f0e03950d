package cursor

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/queue"
)

// State is what a partition knows of one group. A group that only owns has no offset yet.
type State struct {
	Owner     int64 // the highest epoch that has owned the partition; -1 none
	Offset    int64 // committed: of the next record to read; -1 nothing
	LastEpoch int32
	Time      int64 // of the last commit, or of nothing yet 0; milliseconds
	Metadata  string
}

// Passed says whether a commit of the owner would change nothing: the same is committed already, or what is behind it.
func (s *State) Passed(e *Entry) bool {
	return e.Offset < s.Offset || e.Offset == s.Offset && e.Metadata == s.Metadata
}

// None is the state of a group that the partition does not know.
var None = State{Owner: -1, Offset: -1, LastEpoch: -1}

// Outcome says what an entry did.
type Outcome uint8

const (
	// Done: the entry took effect.
	Done Outcome = iota
	// Stale: the entry is not of the owner; nothing was changed.
	Stale
	// Older: the committed offset is the same or a newer one; nothing was changed.
	Older
	// Unreadable: the entry is of a queue, and is none that this build reads; nothing was changed.
	Unreadable
)

// Table is what a partition knows of all groups.
//
// Invariants: a committed offset rises, but by Seek; an owner epoch never falls while the group is known, and only Own
// and Seek raise it; bytes is the size of the snapshot. notes are in the order of their indexes. list holds what byGroup
// does. The committed offset of a group with a window is the window's low offset.
type Table struct {
	byGroup map[string]*place
	peak    int // of byGroup
	list    []*place
	walked  int // of list, by the walk that is under way
	bytes   int
	notes   []note     // of entries that took effect and are not durable
	windows []*place   // those with a window
	ops     []queue.Op // of the entry that is being applied
}

// place is a group's place in a table.
type place struct {
	State
	group  string
	at     int           // in list
	window *queue.Window // of a queue group that has begun
	begun  int64         // the owner epoch of the member that it began with
}

// note is what the table had before an entry.
type note struct {
	index   core.Index
	group   string
	existed bool
	before  State
}

// entryBytes is what a group takes in a snapshot beside its name and metadata.
const entryBytes = 2 + 8 + 8 + 4 + 8 + 2

func stateBytes(group string, s *State) int { return entryBytes + len(group) + len(s.Metadata) }

// Groups is how many groups the table knows, Bytes the size of its snapshot.
func (t *Table) Groups() int { return len(t.byGroup) }

// Bytes is the size of the snapshot without its head.
func (t *Table) Bytes() int { return t.bytes }

// Get is what is known of a group; false and None when nothing is.
func (t *Table) Get(group string) (State, bool) {
	if s := t.byGroup[group]; s != nil {
		return s.State, true
	}
	return None, false
}

// All calls each for the groups in ascending order of their names.
func (t *Table) All(each func(group string, s *State)) {
	for _, group := range t.names() {
		each(group, &t.byGroup[group].State)
	}
}

// Walk calls each for up to most groups that this walk has not met, in no order, and says whether it has met all: the
// next call then begins anew. A group that stays is met once, whatever comes and goes between the calls.
func (t *Table) Walk(most int, each func(group string, s *State)) (all bool) {
	for ; t.walked < len(t.list) && most > 0; most-- {
		p := t.list[t.walked]
		t.walked++
		each(p.group, &p.State)
	}
	if t.walked < len(t.list) {
		return false
	}
	t.walked = 0
	return true
}

func (t *Table) names() []string {
	names := make([]string, 0, len(t.byGroup))
	for group := range t.byGroup {
		names = append(names, group)
	}
	slices.Sort(names)
	return names
}

// Growth is by how many bytes an entry may make the snapshot grow.
func (t *Table) Growth(e *Entry) int {
	s := t.byGroup[e.Group]
	switch {
	case e.Kind == Forget:
		return 0
	case s == nil:
		return entryBytes + len(e.Group) + len(e.Metadata)
	}
	return max(0, len(e.Metadata)-len(s.Metadata))
}

// Apply lets a stored entry take effect. undo says that its frame may still be lost: what it changes is noted under the
// frame's index until Durable passes it.
func (t *Table) Apply(index core.Index, e *Entry, undo bool) Outcome {
	now, known := t.Get(e.Group)
	after := now
	if t.Window(e.Group) != nil && (e.Kind == Own || e.Kind == Commit) { // its members own nothing, and settle what they lease
		return Stale
	}
	switch e.Kind {
	case Own:
		if e.Epoch < now.Owner {
			return Stale
		}
		if known && e.Epoch == now.Owner {
			return Done
		}
		after.Owner = e.Epoch
	case Commit:
		if !known || e.Epoch != now.Owner {
			return Stale
		}
		if now.Passed(e) {
			return Older
		}
		after = State{e.Epoch, e.Offset, e.LastEpoch, e.Time, e.Metadata}
	case Seek:
		if e.Epoch <= now.Owner {
			return Stale
		}
		after = State{e.Epoch, e.Offset, e.LastEpoch, e.Time, e.Metadata}
		if w := t.Window(e.Group); w != nil {
			core.Assert(!undo, "what changes a window is durable")
			w.Reset(e.Offset)
		}
	case Forget:
		if !known {
			return Done
		}
		if undo {
			t.notes = append(t.notes, note{index, e.Group, true, now})
		}
		t.remove(e.Group)
		return Done
	case Queue:
		core.Assert(!undo, "what changes a window is durable")
		head, ops, err := queue.Parse(e.Queue, t.ops[:0])
		if t.ops = ops; err != nil {
			return Unreadable
		}
		return t.ApplyQueue(e.Group, head, ops)
	default:
		core.Assert(false, "a table is given entries of its own kinds")
	}
	t.set(index, e.Group, now, known, after, undo)
	return Done
}

func (t *Table) set(index core.Index, group string, before State, existed bool, after State, undo bool) {
	if undo {
		t.notes = append(t.notes, note{index, group, existed, before})
	}
	t.put(group, after)
}

func (t *Table) put(group string, after State) {
	if t.byGroup == nil {
		t.byGroup = make(map[string]*place)
	}
	if s := t.byGroup[group]; s != nil {
		t.bytes += len(after.Metadata) - len(s.Metadata)
		s.State = after
		return
	}
	t.bytes += stateBytes(group, &after)
	p := &place{State: after, group: group, at: len(t.list)}
	t.byGroup[group], t.list = p, append(t.list, p)
}

// remove forgets a group. What a walk has met stays before what it has not.
func (t *Table) remove(group string) {
	p := t.byGroup[group]
	if p.window != nil {
		i := slices.Index(t.windows, p)
		t.windows = slices.Delete(t.windows, i, i+1)
	}
	t.bytes -= stateBytes(group, &p.State)
	if p.at < t.walked {
		t.walked--
		t.swap(p.at, t.walked)
	}
	last := len(t.list) - 1
	t.swap(p.at, last)
	t.list[last] = nil
	t.list = core.ShrinkSlice(t.list[:last])
	delete(t.byGroup, group)
	t.byGroup = core.ShrinkMap(t.byGroup, &t.peak)
}

func (t *Table) swap(a, b int) {
	t.list[a], t.list[b] = t.list[b], t.list[a]
	t.list[a].at, t.list[b].at = a, b
}

// Durable forgets the notes of entries up to an index.
func (t *Table) Durable(index core.Index) {
	n := 0
	for n < len(t.notes) && t.notes[n].index <= index {
		n++
	}
	if n > 0 {
		t.notes = core.ShrinkSlice(slices.Delete(t.notes, 0, n))
	}
}

// AllDurable says whether nothing that took effect may still be taken back.
func (t *Table) AllDurable() bool { return len(t.notes) == 0 }

// Rollback takes back every entry behind an index. Their frames are gone.
func (t *Table) Rollback(index core.Index) {
	for n := len(t.notes); n > 0 && t.notes[n-1].index > index; n-- {
		u := t.notes[n-1]
		t.notes = t.notes[:n-1]
		switch {
		case u.existed:
			t.put(u.group, u.before)
		case t.byGroup[u.group] != nil:
			t.remove(u.group)
		}
	}
}

// Clone is a table of its own, without notes.
func (t *Table) Clone() *Table {
	c := &Table{}
	for _, p := range t.list {
		c.put(p.group, p.State)
		if p.window != nil {
			c.setWindow(c.byGroup[p.group], p.window.Clone(), p.begun)
		}
	}
	return c
}

// snapshotVersion is the version of the snapshot's layout:
//
//	version u16 | groups u32 | in the order of names: name u16+bytes | owner i64 | offset i64 | last epoch i32 | time i64 | metadata u16+bytes
const snapshotVersion = 1

// AppendSnapshot appends the table to b.
func (t *Table) AppendSnapshot(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, snapshotVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.byGroup)))
	for _, group := range t.names() {
		s := t.byGroup[group]
		b = binary.BigEndian.AppendUint16(b, uint16(len(group)))
		b = append(b, group...)
		b = binary.BigEndian.AppendUint64(b, uint64(s.Owner))
		b = binary.BigEndian.AppendUint64(b, uint64(s.Offset))
		b = binary.BigEndian.AppendUint32(b, uint32(s.LastEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(s.Time))
		b = binary.BigEndian.AppendUint16(b, uint16(len(s.Metadata)))
		b = append(b, s.Metadata...)
	}
	return b
}

// Restore replaces the table by what AppendSnapshot wrote; nothing is an empty table.
func (t *Table) Restore(b []byte) error {
	*t = Table{}
	if len(b) == 0 {
		return nil
	}
	bad := func() error {
		n := len(t.byGroup)
		*t = Table{}
		return fmt.Errorf("cursor state of %d bytes: damaged behind its group number %d", len(b), n)
	}
	if len(b) < 6 || binary.BigEndian.Uint16(b) != snapshotVersion {
		return fmt.Errorf("cursor state of %d bytes: not of version %d, which this build reads", len(b), snapshotVersion)
	}
	count, rest := binary.BigEndian.Uint32(b[2:]), b[6:]
	for range count {
		group, after, ok := cut16(rest)
		if !ok || len(after) < 8+8+4+8 {
			return bad()
		}
		s := State{
			Owner:     int64(binary.BigEndian.Uint64(after)),
			Offset:    int64(binary.BigEndian.Uint64(after[8:])),
			LastEpoch: int32(binary.BigEndian.Uint32(after[16:])),
			Time:      int64(binary.BigEndian.Uint64(after[20:])),
		}
		metadata, after, ok := cut16(after[28:])
		if !ok || t.byGroup[string(group)] != nil {
			return bad()
		}
		s.Metadata = string(metadata)
		t.put(string(group), s)
		rest = after
	}
	if len(rest) != 0 {
		return bad()
	}
	return nil
}

func cut16(b []byte) (head, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if n > len(b)-2 {
		return nil, nil, false
	}
	return b[2 : 2+n], b[2+n:], true
}
