package segment

import (
	"log/slog"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// putGroup writes a group with frames of partition 16 into a journal file of a
// folder and returns where the next one may stand.
func putGroup(t *testing.T, fs *mem.FS, file uint32, at int64, head GroupHeader, frames ...FrameHeader) int64 {
	t.Helper()
	r := &rig{t: t, fs: fs}
	name := JournalPath(1, 0, file)
	h, err := ParseFileHeader(r.readAll(name))
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	for _, f := range frames {
		f.Kind, f.Partition, f.PayloadCRC = FrameNoop, 16, crcOf(nil)
		body = append(body, make([]byte, FrameHeaderBytes)...)
		f.Put(body[len(body)-FrameHeaderBytes:])
	}
	head.Layout, head.FileGeneration, head.Salt = h.Layout, h.FileGeneration, h.Salt
	head.Bytes, head.BodyCRC = uint32(len(body)), crcOf(body)
	b := make([]byte, alignUp(int64(GroupHeaderBytes+len(body))))
	head.Put(b)
	copy(b[GroupHeaderBytes:], body)
	r.patch(name, at, b)
	return at + int64(len(b))
}

// A start that could not read some groups cut them, and its first group names the
// last one that it accepted. When the device gives the groups again at a later
// start, they stay void: what was appended since has their frames' indexes.
func TestRestartVoidsWhatWasCut(t *testing.T) {
	fs := mem.New()
	if _, err := OpenFolder(fs, smallFolder(1)); err != nil {
		t.Fatal(err)
	}
	at := putGroup(t, fs, 1, FileHeaderBytes, GroupHeader{Sequence: 1}, FrameHeader{Index: 1, Term: 1, Generation: 1})
	putGroup(t, fs, 1, at, GroupHeader{Sequence: 2, Synced: 1}, FrameHeader{Index: 2, Term: 1, Generation: 1})
	// These two were on a file that could not be read.
	at = putGroup(t, fs, 2, FileHeaderBytes, GroupHeader{Sequence: 3, Synced: 1}, FrameHeader{Index: 3, Term: 1, Generation: 1})
	putGroup(t, fs, 2, at, GroupHeader{Sequence: 4, Synced: 1}, FrameHeader{Index: 4, Term: 1, Generation: 1})
	at = putGroup(t, fs, 3, FileHeaderBytes, GroupHeader{Flags: GroupRestart, Sequence: 20, Synced: 2})
	putGroup(t, fs, 3, at, GroupHeader{Sequence: 21, Synced: 20}, FrameHeader{Index: 3, Term: 2, Generation: 2})
	folder, err := OpenFolder(fs, smallFolder(1))
	if err != nil {
		t.Fatal(err)
	}
	replay, err := replayJournal(folder, 0, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var got []core.Index
	for _, f := range replay.partitions[16].frames {
		got = append(got, f.index)
		if f.index >= 3 && f.generation != 2 {
			t.Errorf("frame %d of generation %d was cut by an earlier start and is replayed", f.index, f.generation)
		}
	}
	if len(got) != 3 || replay.damages != 0 || replay.last != 21 {
		t.Errorf("replayed the frames %v up to group %d, %d damages", got, replay.last, replay.damages)
	}
}

// Frames that were durable and are not in the file any more, at its very end, are
// damage too: zeros or a file that is too short are no torn tail when something
// calls the frames durable, and the next append goes behind them.
func TestDurablePointMissingEnd(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	for range 4 {
		o.append(1, 70<<10)
		r.settle()
	}
	r.stop()
	g, end := o.log.active(), o.log.EndOffset()
	last := g.position - alignUp(70<<10) // somewhere in the last write
	for what, spoil := range map[string]func(*rig){
		"zeros": func(r *rig) { r.patch(g.path, last, make([]byte, g.position-last)) },
		"too short": func(r *rig) {
			f, err := r.fs.Open(g.path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Truncate(last); err != nil {
				t.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		c := r.branchAfter(spoil)
		if !c.store.Clean() {
			t.Fatal("the stop was clean")
		}
		o := c.reopen(16)[0]
		if o.log.EndOffset() != end {
			t.Fatalf("%s: the log ends at %d, %d was durable", what, o.log.EndOffset(), end)
		}
		if d := o.log.Damaged(); len(d) != 1 || d[0].Start != end-1 || d[0].Next != end {
			t.Fatalf("%s: damaged are %+v, want [%d, %d)", what, d, end-1, end)
		}
		o.history = nil
		o.append(1, 10)
		c.settle()
		if o.history[0].base != end {
			t.Fatalf("%s: appended at %d, want %d", what, o.history[0].base, end)
		}
	}
}

// A changed shard count does not make a stop clean that was not: terms rise as
// after any unclean start. One that was clean stays clean.
func TestShardCountChangeKeepsUncleanness(t *testing.T) {
	for _, clean := range []bool{false, true} {
		r := newRig(t, nil)
		o := r.serve(16)[0]
		o.append(1, 10)
		r.settle()
		term := o.log.Term()
		if clean {
			r.stop()
		}
		fs := r.fs.Crash(1, dropAll)
		c := newRigOn(t, fs, func(ro *rigOptions) { ro.folder = smallFolder(2); ro.shard = core.ShardOf(16, 2) })
		got := c.open(16)
		if c.store.Clean() != clean {
			t.Errorf("a stop that was clean: %v is called clean: %v", clean, c.store.Clean())
		}
		if raised := got.log.Term() > term; raised == clean {
			t.Errorf("clean %v: term %d, then %d", clean, term, got.log.Term())
		}
	}
}
