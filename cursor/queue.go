package cursor

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/queue"
)

// Window is a queue group's window; nil when the group has not begun, or is none.
func (t *Table) Window(group string) *queue.Window {
	if p := t.byGroup[group]; p != nil {
		return p.window
	}
	return nil
}

// Queues is how many groups have a window.
func (t *Table) Queues() int { return len(t.windows) }

// QueueRoom is how many more records the windows may hold.
func (t *Table) QueueRoom() int {
	bytes := core.QueueBytesMax - core.QueueTextBytesMax
	for _, p := range t.windows {
		bytes -= queueBytes + len(p.group) + p.window.Bytes() - p.window.TextBytes()
	}
	return bytes / queue.RecordBytes
}

// QueueNames are the groups with a window, in ascending order.
func (t *Table) QueueNames() (names []string) {
	for _, p := range t.windows {
		names = append(names, p.group)
	}
	slices.Sort(names)
	return names
}

// queueBytes is what a window takes in a snapshot beside its own bytes and its group's name.
const queueBytes = 2 + 8 + 4

// QueueBytes is the size of the snapshot of all windows at most, without its head. Windows grow by claims too, so it is
// counted when it is asked for.
func (t *Table) QueueBytes() (bytes int) {
	for _, p := range t.windows {
		bytes += queueBytes + len(p.group) + p.window.Bytes()
	}
	return bytes
}

// QueueGrowth is by how many bytes the begin of a group's window makes the snapshots grow: of the table, of the windows.
func (t *Table) QueueGrowth(group string) (table, windows int) {
	p := t.byGroup[group]
	if p == nil {
		table = entryBytes + len(group)
	}
	if p == nil || p.window == nil {
		windows = queueBytes + len(group) + queue.New(0, 0).Bytes()
	}
	return table, windows
}

// textRoom is how many more bytes the windows may keep of what members said of dead records.
func (t *Table) textRoom() int {
	room := core.QueueTextBytesMax
	for _, p := range t.windows {
		room -= p.window.TextBytes()
	}
	return room
}

// Begun is the owner epoch that the member had with whom a queue group began; -1 for none.
func (t *Table) Begun(group string) int64 {
	if p := t.byGroup[group]; p != nil && p.window != nil {
		return p.begun
	}
	return -1
}

func (t *Table) setWindow(p *place, w *queue.Window, begun int64) {
	p.window, p.begun = w, begun
	t.windows = append(t.windows, p)
}

// ApplyQueue lets a stored entry of a queue group take effect; it is durable. Stale: it was for a window that has been set
// to another offset since, or forgotten.
func (t *Table) ApplyQueue(group string, head queue.Head, ops []queue.Op) Outcome {
	state, known := t.Get(group)
	if len(ops) > 0 && ops[0].Kind == queue.Begin { // alone in its entry
		return t.beginQueue(group, state, head, &ops[0])
	}
	p := t.byGroup[group]
	if !known || p.window == nil || head.Owner != p.Owner {
		return Stale
	}
	for i := range ops {
		op, room := &ops[i], 0
		if op.Text != "" {
			room = t.textRoom()
		}
		p.window.Apply(op, room)
	}
	p.Offset, p.Time = p.window.Low(), max(p.Time, head.Time)
	return Done
}

// beginQueue makes a group's window, unless another has.
func (t *Table) beginQueue(group string, state State, head queue.Head, op *queue.Op) Outcome {
	switch {
	case head.Owner < state.Owner:
		return Stale
	case t.Window(group) != nil:
		return Done
	}
	if state.Offset < 0 { // else it was set before it began
		state.Offset = op.Base
	}
	state.Time = max(state.Time, head.Time)
	t.put(group, state)
	t.setWindow(t.byGroup[group], queue.New(state.Offset, op.Identity), head.Owner)
	return Done
}

// queueSnapshotVersion is the version of the layout of the windows' snapshot:
//
//	version u16 | groups u32 | in the order of names: name u16+bytes | begun i64 | window: length u32, bytes
const queueSnapshotVersion = 1

// AppendQueues appends the windows to b.
func (t *Table) AppendQueues(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, queueSnapshotVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.windows)))
	for _, group := range t.QueueNames() {
		w := t.byGroup[group].window
		b = binary.BigEndian.AppendUint16(b, uint16(len(group)))
		b = append(b, group...)
		b = binary.BigEndian.AppendUint64(b, uint64(t.byGroup[group].begun))
		b = append(b, 0, 0, 0, 0)
		start := len(b)
		b = w.AppendSnapshot(b)
		binary.BigEndian.PutUint32(b[start-4:], uint32(len(b)-start))
	}
	return b
}

// RestoreQueues adds the windows that AppendQueues wrote to a table that was restored.
func (t *Table) RestoreQueues(b []byte) error {
	bad := func(why string) error {
		n := len(t.windows)
		*t = Table{}
		return fmt.Errorf("queue state of %d bytes: damaged behind its group number %d: %s", len(b), n, why)
	}
	if len(b) < 6 || binary.BigEndian.Uint16(b) != queueSnapshotVersion {
		*t = Table{}
		return fmt.Errorf("queue state of %d bytes: not of version %d, which this build reads", len(b), queueSnapshotVersion)
	}
	count, rest := binary.BigEndian.Uint32(b[2:]), b[6:]
	for range count {
		group, after, ok := cut16(rest)
		if !ok || len(after) < 8+4 || uint64(binary.BigEndian.Uint32(after[8:])) > uint64(len(after)-12) {
			return bad("it is cut short")
		}
		begun := int64(binary.BigEndian.Uint64(after))
		after = after[8:]
		n := int(binary.BigEndian.Uint32(after))
		window, err := queue.Restore(after[4 : 4+n])
		if err != nil {
			return bad(err.Error())
		}
		p := t.byGroup[string(group)]
		if p == nil || p.window != nil || p.Offset != window.Low() {
			return bad(fmt.Sprintf("a window from offset %d on of a group that does not stand there", window.Low()))
		}
		t.setWindow(p, window, begun)
		rest = after[4+n:]
	}
	if len(rest) != 0 {
		return bad("bytes behind its end")
	}
	return nil
}
