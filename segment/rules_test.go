package segment

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

var dropAll = mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop}

// reopen opens logs after a crash and starts the store.
func (r *rig) reopen(ids ...core.PartitionID) []*rigOwner {
	r.t.Helper()
	var owners []*rigOwner
	for _, id := range ids {
		owners = append(owners, r.open(id))
	}
	r.store.Start()
	return owners
}

// A frame that is durable in the journal is not acked before a direct frame
// before it is: the prefix rule.
func TestPrefixRule(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 100<<10)
	r.settle()
	before := o.log.DurableOffset()
	slow := r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "topics/*.log", Action: mem.FaultDelay, Delay: 50})
	o.append(1, 100<<10)
	r.turn()
	o.append(1, 100)
	syncs := r.store.journal.synced
	r.until("the journal's sync", func() bool { return r.store.journal.synced > syncs })
	if slow.Hits() != 1 {
		t.Fatal("the direct write was not held back")
	}
	if o.log.DurableOffset() != before || o.log.WrittenOffset() != before {
		t.Fatalf("durable %d and written %d while the frame before is on its way, want %d", o.log.DurableOffset(), o.log.WrittenOffset(), before)
	}
	r.settle()
	r.until("the ack", func() bool { return o.log.DurableOffset() == o.log.EndOffset() })
}

// The same in one partition's frames of lower durability: written follows the prefix.
func TestPrefixRuleWritten(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.Durability = core.DurabilityBatch })
	o := r.serve(16)[0]
	o.append(1, 100<<10)
	r.settle()
	before := o.log.WrittenOffset()
	r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "topics/*.log", Action: mem.FaultDelay, Delay: 50})
	o.append(1, 100<<10)
	r.turn()
	o.append(1, 100)
	written := r.store.journal.written
	r.until("the journal's write", func() bool { return r.store.journal.written > written })
	if o.log.WrittenOffset() != before {
		t.Fatalf("written %d while the frame before is on its way, want %d", o.log.WrittenOffset(), before)
	}
}

// Raising a topic's durability syncs what was written under the lower one.
func TestRaisedDurabilitySyncs(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18} })
	o := r.serve(16)[0]
	o.append(1, 100)
	r.settle()
	o.append(1, 100<<10) // takes along the frame that opens the term, which is always synced
	r.settle()
	o.append(1, 100)
	o.append(1, 100<<10)
	r.settle()
	if o.log.DurableOffset() == o.log.EndOffset() {
		t.Fatal("a batch topic is synced at once")
	}
	if o.log.WrittenOffset() != o.log.EndOffset() {
		t.Fatalf("written %d of %d", o.log.WrittenOffset(), o.log.EndOffset())
	}
	r.store.SetOptions(o.log, LogOptions{Durability: core.DurabilitySync})
	r.settle()
	if o.log.DurableOffset() != o.log.EndOffset() {
		t.Fatalf("durable %d of %d after the durability was raised", o.log.DurableOffset(), o.log.EndOffset())
	}
}

// A batch topic is synced after flush.ms, and after flush.bytes.
func TestBatchIsSyncedInTime(t *testing.T) {
	for _, size := range []int{100, 100 << 10} {
		r := newRig(t, func(o *rigOptions) { o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 10e6} })
		o := r.serve(16)[0]
		o.append(1, 100)
		r.settle()
		o.append(1, size)
		r.settle()
		if o.log.DurableOffset() == o.log.EndOffset() {
			t.Fatal("a batch topic is synced at once")
		}
		if st := r.store.Stats(); st.RiskBytes == 0 || st.RiskSince == 0 {
			t.Fatalf("nothing is said to be at risk: %+v", st)
		}
		r.tick(5e6)
		if o.log.DurableOffset() == o.log.EndOffset() {
			t.Fatal("synced before flush.ms")
		}
		r.tick(6e6)
		if o.log.DurableOffset() != o.log.EndOffset() {
			t.Fatalf("durable %d of %d after flush.ms", o.log.DurableOffset(), o.log.EndOffset())
		}
		if st := r.store.Stats(); st.RiskBytes != 0 || st.RiskSince != 0 {
			t.Fatalf("%d bytes are said to be at risk since %d", st.RiskBytes, st.RiskSince)
		}
	}
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18, FlushBytes: 50 << 10}
	})
	o := r.serve(16)[0]
	for range 30 {
		o.append(1, 4000)
		r.settle()
	}
	if o.log.RiskBytes() > 60<<10 {
		t.Fatalf("%d bytes at risk, flush.bytes is %d", o.log.RiskBytes(), 50<<10)
	}
}

// The first frame of a term is synced before anything of it is acked or shown, at
// any durability.
func TestFirstFrameOfTermIsSynced(t *testing.T) {
	for _, level := range []core.Durability{core.DurabilityNone, core.DurabilityBatch, core.DurabilitySync} {
		r := newRig(t, func(o *rigOptions) { o.log.Durability = level })
		o := r.serve(16)[0]
		o.append(1, 100)
		if o.log.ReachedOffset(level) != 0 {
			t.Fatalf("%v: reached %d before anything was written", level, o.log.ReachedOffset(level))
		}
		held := r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "*.jnl", Action: mem.FaultDelay, Delay: 20})
		for range 10 {
			r.turn()
		}
		if held.Hits() == 0 {
			t.Fatalf("%v: the first frame of a term was not synced", level)
		}
		if o.log.ReachedOffset(level) != 0 {
			t.Fatalf("%v: reached %d before the first frame of the term was synced", level, o.log.ReachedOffset(level))
		}
		r.until("the sync", func() bool { return o.log.ReachedOffset(level) == 1 })
		term := o.log.Term()
		r.crash(1, dropAll)
		o = r.reopen(16)[0]
		if o.log.Term() <= term {
			t.Fatalf("%v: term %d after an unclean start, %d before", level, o.log.Term(), term)
		}
	}
}

// What none topics accepted is visible at once when the term is open.
func TestNoneIsReachedInMemory(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.Durability = core.DurabilityNone })
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	o.append(1, 10)
	if o.log.ReachedOffset(core.DurabilityNone) != 2 {
		t.Fatalf("reached %d, want 2", o.log.ReachedOffset(core.DurabilityNone))
	}
}

// recordingDisk notes every byte range that is written, to find rewrites.
type recordingDisk struct {
	core.Disk
	t       testing.TB
	written map[string]int64 // up to where each file was written
	rewrote int
}

func (d *recordingDisk) Submit(op *core.DiskOp) bool {
	if !d.Disk.Submit(op) {
		return false
	}
	for ; op != nil; op = op.Next {
		if op.Kind != core.DiskWrite {
			continue
		}
		if op.Offset%core.DiskAlignment != 0 || len(op.Buf)%core.DiskAlignment != 0 {
			d.t.Errorf("a write of %d bytes at %d does not end on the disk's unit", len(op.Buf), op.Offset)
		}
		name := fmt.Sprint(op.File)
		if op.Offset == 0 { // a header begins the file's life anew
			d.written[name] = int64(len(op.Buf))
			continue
		}
		if op.Offset < d.written[name] {
			d.rewrote++
			d.t.Errorf("bytes [%d, %d) of file %s are written again", op.Offset, d.written[name], name)
		}
		d.written[name] = op.Offset + int64(len(op.Buf))
	}
	return true
}

// Every write ends on a 4 KiB boundary and no durable byte is written again.
func TestDurableBytesAreNeverRewritten(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log.SegmentBytes = 256 << 10 })
	disk := &recordingDisk{Disk: r.store.ports.Disk, t: t, written: map[string]int64{}}
	r.store.ports.Disk = disk
	owners := r.serve(16, 17, 18)
	for i := range 300 {
		o := owners[i%3]
		o.append(1+i%3, 1+i*17%3000)
		if i%7 == 0 {
			o.append(1, 70<<10)
		}
		if i%2 == 0 {
			r.turn()
		}
	}
	r.settle()
	r.tick(100e9)
	for _, o := range owners {
		o.check(0)
	}
	if len(disk.written) < 4 {
		t.Fatalf("%d files were written", len(disk.written))
	}
}

// A sync group is alone in flight, and a group is issued after its predecessor's
// sync: the header says so.
func TestSyncGroupsFollowEachOther(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	j := r.store.journal
	for i := range 50 {
		owners[i%2].append(1, 100)
		r.store.Flush(r.clock.mono)
		if j.syncing && j.inFlight > 1 {
			t.Fatalf("%d groups in flight beside a sync", j.inFlight)
		}
		if i%3 == 0 {
			r.reap()
		}
	}
	r.settle()
	var js JournalScanner
	f, err := r.fs.OpenRead(JournalPath(1, 0, r.store.journal.current.number))
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	if err := js.Open(f, size, nil); err != nil {
		t.Fatal(err)
	}
	groups := 0
	for js.Next() {
		if js.Group.Flags == 0 && js.Group.Synced != js.Group.Sequence-1 {
			t.Fatalf("group %d says that %d is synced", js.Group.Sequence, js.Group.Synced)
		}
		groups++
	}
	if groups < 10 {
		t.Fatalf("%d groups in the journal", groups)
	}
}

// Groups of batch topics may have two in flight, never more.
func TestUnsyncedGroupsInFlight(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18} })
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "*.jnl", Action: mem.FaultDelay, Delay: 100, Count: -1})
	most := 0
	for range 10 {
		o.append(1, 10)
		r.turn()
		most = max(most, r.store.journal.inFlight)
	}
	if most != 2 {
		t.Fatalf("%d groups in flight, want 2", most)
	}
}

// The segment's file and folder are durable before a frame in it is acked.
func TestSegmentFolderIsSyncedBeforeAck(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 100)
	r.settle()
	o.append(1, 100<<10)
	r.until("the ack", func() bool { return o.log.DurableOffset() == 2 })
	r.crash(1, dropAll)
	o = r.reopen(16)[0]
	if o.log.EndOffset() != 2 {
		t.Fatalf("an acked frame vanished with its folder: the log ends at %d", o.log.EndOffset())
	}
	o.check(0)
}

// Frames dropped by a roll back stay dropped, although the journal holds them
// synced, and their offsets hold what came after: generations.
func TestGenerationDiscardsDroppedFrames(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 100<<10)
	r.settle()
	r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: "topics/*.log", Action: mem.FaultDelay, Delay: 30})
	r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*.log"})
	o.append(1, 100<<10) // will fail
	r.turn()
	o.append(5, 100) // journaled and synced behind it
	r.until("the roll back", func() bool { return len(o.rolled) > 0 })
	end := o.log.EndOffset()
	if o.rolled[0] != 1 || end != 1 {
		t.Fatalf("rolled back to %d, end %d", o.rolled[0], end)
	}
	o.append(2, 77)
	r.until("the ack", func() bool { return o.log.DurableOffset() == 3 })
	want := o.history
	for seed := range uint64(5) {
		c := *r
		c.fs = r.fs.Crash(seed, mem.CrashOptions{})
		c.start()
		o := c.reopen(16)[0]
		if o.log.EndOffset() != 3 || len(o.history) != len(want) || o.sum != want[len(want)-1].sum {
			t.Fatalf("seed %d: the log ends at %d with %d batches, want 3 with %d", seed, o.log.EndOffset(), len(o.history), len(want))
		}
		o.check(0)
	}
}

// Journal files are recycled under load; nothing acked is lost at any moment, and
// small partitions are copied forward instead of being flushed.
func TestRecycling(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17, 18, 19)
	quiet := owners[3]
	quiet.append(3, 50)
	r.settle()
	ids := []core.PartitionID{16, 17, 18, 19}
	crashes := 0
	for i := 0; r.store.stats.JournalRecycles < 6; i++ {
		if i > 20_000 {
			t.Fatalf("%d recycles", r.store.stats.JournalRecycles)
		}
		for _, o := range owners[:3] {
			o.append(2, 1500)
		}
		r.turn()
		busy := r.store.journal.recycle.file != nil || r.store.journal.prepare.busy
		if busy || i%97 == 0 {
			crashes++
			c := *r
			c.ops = nil
			c.fs = r.fs.Crash(uint64(i), mem.CrashOptions{})
			c.start()
			if n := c.store.stats.JournalDamages; n > 0 {
				t.Fatalf("turn %d: %d damages of the journal: what recycling freed is missed", i, n)
			}
			for k, o := range c.reopen(ids...) {
				was := owners[k]
				if o.log.EndOffset() < was.log.DurableOffset() {
					t.Fatalf("turn %d: partition %d ends at %d, %d was acked", i, ids[k], o.log.EndOffset(), was.log.DurableOffset())
				}
				if len(o.log.Damaged()) > 0 {
					t.Fatalf("turn %d: called damaged: %+v", i, o.log.Damaged())
				}
				if k == 3 || crashes%10 == 0 {
					o.history = was.history[:0:0]
					for _, b := range was.history {
						if b.next <= o.log.EndOffset() {
							o.history = append(o.history, b)
						}
					}
					o.check(0)
				}
			}
		}
	}
	if crashes < 15 {
		t.Fatalf("%d crashes tried", crashes)
	}
	if len(quiet.log.segments) != 0 {
		t.Fatal("a partition of a few bytes was flushed to a segment to recycle a file")
	}
	if r.store.stats.JournalCopied == 0 {
		t.Fatal("nothing was copied forward")
	}
	if st := r.store.Stats(); st.WriteAmplification() < 1 || st.WriteAmplification() > 4 {
		t.Fatalf("write amplification %v", st.WriteAmplification())
	}
}

// Without a free file ordinary frames wait, but a trim still gets through: the
// journal's reserve.
func TestJournalReserve(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	for _, o := range owners {
		o.append(1, 100)
	}
	r.settle()
	// Nothing can be flushed to segments, so no file can be emptied.
	r.fs.Inject(&mem.Fault{Kind: core.DiskCreate, Path: "topics*", Count: -1})
	busy := false
	for i := 0; i < 5000 && !busy; i++ {
		err := owners[i%2].tryAppend(2, 4000, core.DurabilitySync)
		if err != nil && !errors.Is(err, ErrStoreBusy) && !errors.Is(err, ErrLogFailed) {
			t.Fatal(err)
		}
		r.turn()
		if i%50 == 0 {
			r.tick(2e9)
		}
		j := r.store.journal
		busy = len(j.free) == 0 && j.current.bytes-j.position <= j.reserveBytes() && len(r.store.placeList) > 0
	}
	if !busy {
		t.Fatal("the journal never filled")
	}
	if err := r.store.Err(); err != nil {
		t.Fatal(err)
	}
	left := r.store.journal.current.bytes - r.store.journal.position
	if left < r.store.journal.reserveBytes()-core.DiskAlignment*64 {
		t.Fatalf("%d bytes are left of a reserve of %d", left, r.store.journal.reserveBytes())
	}
	o := owners[0]
	r.until("a partition that takes frames", func() bool { return o.log.state == logServing })
	if err := r.store.Trim(o.log, 1); err != nil {
		t.Fatal(err)
	}
	r.until("the trim on a full journal", func() bool { return o.log.StartOffset() == 1 })
	if left := r.store.journal.current.bytes - r.store.journal.position; left < r.store.journal.reserveBytes()/2 {
		t.Fatalf("%d bytes are left for checkpoints", left)
	}
	r.fs.ClearFaults()
	r.tick(3e9)
	for range 50 {
		r.tick(1e9)
	}
	for _, o := range owners {
		r.until("the frames that waited", func() bool { return o.log.DurableOffset() == o.log.EndOffset() })
		o.check(o.log.StartOffset())
	}
}

// A journal file that meta/ lists and that is missing is loss, never a fresh start.
func TestMissingJournalFileIsLoss(t *testing.T) {
	r := newRig(t, nil)
	r.serve(16)[0].append(1, 10)
	r.settle()
	r.fs = r.fs.Kill(1)
	if err := r.fs.Remove(JournalPath(1, 0, 3)); err != nil {
		t.Fatal(err)
	}
	err := r.tryStart()
	if err == nil || !strings.Contains(err.Error(), "journal-0003.jnl") {
		t.Fatalf("started without a journal file: %v", err)
	}
}

// A folder whose meta/ is gone is not taken for a new one.
func TestLostMetaIsNoFreshStart(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 100<<10)
	r.settle()
	o.append(1, 100<<10)
	r.settle()
	for _, name := range []string{layoutPath, identityPath} {
		fs := r.fs.Kill(1)
		if err := fs.Remove(name); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFolder(fs, r.options.folder); err == nil {
			t.Fatalf("started without %s", name)
		}
	}
}

// The making of a data folder may be cut short at any step.
func TestFolderCreationCrashes(t *testing.T) {
	for step := 0; ; step++ {
		fs := mem.New()
		f := fs.Inject(&mem.Fault{Skip: step, Count: -1})
		_, err := OpenFolder(fs, smallFolder(2))
		done := f.Hits() == 0
		if done != (err == nil) {
			t.Fatalf("step %d: %d hits, %v", step, f.Hits(), err)
		}
		for seed := range uint64(3) {
			c := fs.Crash(seed, mem.CrashOptions{})
			d, err := OpenFolder(c, smallFolder(2))
			if err != nil {
				t.Fatalf("step %d, seed %d: %v", step, seed, err)
			}
			for shard := range 2 {
				if _, err := replayJournal(d, core.ShardID(shard), 0, d.log); err != nil {
					t.Fatalf("step %d, seed %d: %v", step, seed, err)
				}
			}
		}
		if done {
			if step < 30 {
				t.Fatalf("only %d steps", step)
			}
			return
		}
	}
}

// The change of the shard count may be cut short at any step, and repeated.
func TestShardCountChangeCrashes(t *testing.T) {
	r := newRig(t, nil)
	ids := []core.PartitionID{16, 17, 18, 19, 20}
	for i, o := range r.serve(ids...) {
		for n := range 5 {
			o.append(1+i, 100*n+1)
			r.turn()
		}
		if i == 2 {
			o.append(1, 100<<10)
		}
	}
	r.settle()
	base := r.fs.Kill(0)
	for step := 0; ; step += 3 {
		fs := base.Kill(0)
		f := fs.Inject(&mem.Fault{Skip: step, Count: -1})
		o := smallFolder(3)
		_, err := OpenFolder(fs, o)
		fs = fs.Crash(uint64(step), mem.CrashOptions{})
		found := 0
		for shard := range 3 {
			c := newRigOn(t, fs, func(ro *rigOptions) { ro.folder = o; ro.shard = core.ShardID(shard) })
			for k, id := range ids {
				if core.ShardOf(id, 3) != core.ShardID(shard) {
					continue
				}
				found++
				was := r.owners[id]
				got := c.open(id)
				if got.log.EndOffset() != was.log.EndOffset() || got.sum != was.sum {
					t.Fatalf("step %d: partition %d ends at %d, want %d", step, id, got.log.EndOffset(), was.log.EndOffset())
				}
				_ = k
			}
			if got := c.folder.Shards(); got != 3 {
				t.Fatalf("%d shards", got)
			}
		}
		if found != len(ids) {
			t.Fatalf("%d of %d partitions found", found, len(ids))
		}
		if entries, err := fs.List("."); err != nil {
			t.Fatal(err)
		} else {
			layouts := 0
			for _, e := range entries {
				if strings.HasPrefix(e.Name, "layout-") {
					layouts++
				}
			}
			if layouts != 1 {
				t.Fatalf("step %d: %d layouts are left", step, layouts)
			}
		}
		if f.Hits() == 0 {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

func newRigOn(t rigT, fs *mem.FS, change func(*rigOptions)) *rig {
	o := rigOptions{folder: smallFolder(1), log: LogOptions{Durability: core.DurabilitySync}, slabs: core.HeapSlabs{}}
	o.store.FreeBytesLow, o.store.FreeBytesHigh = 1, 2
	change(&o)
	r := &rig{t: t, fs: fs, options: o, clock: &rigClock{wall: 1_700_000_000e9, mono: 1e9}}
	r.start()
	return r
}

// Frames of a partition that nobody knows are kept aside, never dropped.
func TestQuarantine(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	owners[0].append(2, 100)
	owners[1].append(3, 100)
	r.settle()
	owners[1].append(1, 100<<10)
	r.settle()
	owners[1].append(3, 100)
	r.settle()
	r.crash(1, mem.CrashOptions{})
	r.open(16)
	if err := r.store.Quarantine(func(id core.PartitionID) bool { return id == 16 }); err != nil {
		t.Fatal(err)
	}
	entries, err := r.fs.List(QuarantineDir)
	if err != nil || len(entries) != 1 || entries[0].Size == 0 {
		t.Fatalf("in quarantine: %v, %v", entries, err)
	}
	if r.store.stats.Quarantined != 1 {
		t.Fatal("nobody was told")
	}
	moved, err := r.folder.QuarantineFolders(func(topic core.TopicID, number core.PartitionNumber, id core.PartitionID) bool { return id == 16 })
	if err != nil || len(moved) != 1 {
		t.Fatalf("moved %v, %v", moved, err)
	}
	if list, err := r.fs.List(moved[0]); err != nil || len(list) == 0 {
		t.Fatalf("the folder in quarantine: %v, %v", list, err)
	}
}

// A foreign segment file is refused by name, never merged.
func TestForeignSegmentIsRefused(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	for _, o := range owners {
		o.append(1, 100)
		r.settle()
		o.append(1, 100<<10)
		r.settle()
	}
	r.fs = r.fs.Kill(1)
	from := path.Join(rigIdentity(16).dir(), SegmentName(0, 1)+LogExtension)
	to := path.Join(rigIdentity(17).dir(), SegmentName(0, 9)+LogExtension)
	if err := r.fs.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	r.start()
	if _, err := r.tryOpen(17); !errors.Is(err, ErrFileForeign) || !strings.Contains(err.Error(), SegmentName(0, 9)) {
		t.Fatalf("a foreign file: %v", err)
	}
}
