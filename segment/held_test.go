package segment

import (
	"bytes"
	"errors"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// heldRig is a store of which partition 17 has acknowledged records that the journal
// alone holds, a trim and a second term, and which has ended.
func heldRig(t *testing.T) (r *rig, want []rigBatch) {
	r = newRig(t, nil)
	for _, o := range r.serve(16, 17) {
		o.append(1, 100)
		r.settle()
		o.append(1, 100<<10)
		r.settle()
	}
	r.kill(1)
	r.open(16)
	o := r.open(17)
	r.store.Start()
	o.append(3, 100) // in the journal alone
	r.settle()
	if err := r.store.Trim(o.log, 2); err != nil {
		t.Fatal(err)
	}
	r.settle()
	if o.log.DurableOffset() != 5 || o.log.StartOffset() != 2 {
		t.Fatalf("the log is [%d, %d)", o.log.StartOffset(), o.log.DurableOffset())
	}
	return r, o.history
}

// verifyHeld has the offline tools find in the folder everything that belongs there.
func (r *rig) verifyHeld(how string) {
	r.t.Helper()
	r.fs.ClearFaults()
	var out bytes.Buffer
	sum, err := Verify(r.fs, NewReport(&out, false))
	if err != nil || !strings.Contains(out.String(), HeldDir) || !strings.Contains(how, "foreign") && !sum.Sound() {
		r.t.Fatalf("verify: %v, %+v\n%s", err, sum, out.String())
	}
	out.Reset()
	if err := Dump(r.fs, r.held()[0], NewReport(&out, false)); err != nil || strings.Contains(out.String(), "damage") {
		r.t.Fatalf("dump: %v\n%s", err, out.String())
	}
}

// hold ends a start, as a shard does.
func (r *rig) hold() error {
	known := func(core.PartitionID) bool { return true }
	return errors.Join(r.store.Hold(known), r.store.Quarantine(known))
}

// held are the files that are set aside.
func (r *rig) held() (names []string) {
	entries, err := r.fs.List(HeldDir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		names = append(names, path.Join(HeldDir, e.Name))
	}
	return names
}

// checkHeld opens partition 17 and wants back what was acknowledged.
func (r *rig) checkHeld(want []rigBatch) {
	r.t.Helper()
	o := r.open(17)
	if o.log.DurableOffset() != 5 || o.log.StartOffset() != 2 || len(o.log.Damaged()) > 0 {
		r.t.Fatalf("the log came back as [%d, %d) with damage %v", o.log.StartOffset(), o.log.DurableOffset(), o.log.Damaged())
	}
	if n := len(o.history); n == 0 || o.history[n-1].base != want[len(want)-1].base {
		r.t.Fatalf("%d batches came back", n)
	}
	if o.log.Term() < 3 {
		r.t.Fatalf("the log goes on in term %d: its offsets may have been used in it", o.log.Term())
	}
}

// Whatever keeps a start from opening a partition, the others are served, the journal
// is recycled, and nothing acknowledged of the partition is lost by that: the first
// start that can open it has everything.
func TestRefusedPartitionLosesNothing(t *testing.T) {
	own := rigIdentity(17).dir()
	for name, c := range map[string]struct {
		spoil func(r *rig) (mend func())
	}{
		"its segment cannot be opened": {func(r *rig) func() {
			r.fs.Inject(&mem.Fault{Kind: core.DiskOpen, Path: own + "/*.log", Count: -1})
			return r.fs.ClearFaults
		}},
		"its segment cannot be synced": {func(r *rig) func() {
			r.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: own + "/*.log", Count: -1})
			return r.fs.ClearFaults
		}},
		"a foreign file lies in its folder": {func(r *rig) func() {
			from := path.Join(rigIdentity(16).dir(), SegmentName(0, 1)+LogExtension)
			to := path.Join(own, SegmentName(0, 9)+LogExtension)
			mend := func() {
				for _, err := range []error{r.fs.Remove(to), r.fs.SyncDir(own)} {
					if err != nil {
						r.t.Fatal(err)
					}
				}
			}
			if f, err := r.fs.OpenRead(to); err == nil { // it is there
				f.Close()
				return mend
			}
			for _, err := range []error{r.fs.Rename(from, to), r.fs.SyncDir(own), r.fs.SyncDir(path.Dir(from))} {
				if err != nil {
					r.t.Fatal(err)
				}
			}
			return mend
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r, want := heldRig(t)
			r.fs = r.fs.Crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
			mend := func() {}
			for start := range 3 { // it stays so for some starts
				mend = c.spoil(r)
				r.start()
				if _, err := r.tryOpen(17); err == nil {
					t.Fatal("it could be opened")
				}
				other := r.create(18 + core.PartitionID(start))
				if err := r.hold(); err != nil {
					t.Fatal(err)
				}
				if n := len(r.held()); n != 1 {
					t.Fatalf("%d files are set aside", n)
				}
				if entries, _ := r.fs.List(QuarantineDir); len(entries) > 0 {
					t.Fatalf("of a known partition something is in quarantine: %v", entries)
				}
				r.store.Start()
				r.recycleAll(other)
				r.recycleAll(other)
				r.stop()
				r.verifyHeld(name)
			}
			mend()
			r.start()
			if r.store.Clean() {
				t.Error("the stop is called clean, though it knew nothing of a log")
			}
			r.checkHeld(want)
			if n := r.held(); len(n) > 0 {
				t.Errorf("still set aside: %v", n)
			}
			if err := r.hold(); err != nil {
				t.Fatal(err)
			}
			r.store.Start()
			r.recycleAll(r.owners[17])
			r.crash(2, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
			if o := r.open(17); len(o.log.Damaged()) > 0 || o.log.DurableOffset() < 5 {
				t.Fatalf("after a power cut the log ends at %d with damage %v", o.log.DurableOffset(), o.log.Damaged())
			}
		})
	}
}

// A start that cannot set aside what it must does not begin to serve, and a power cut
// at any step of it loses nothing.
func TestSettingAsideFailsAtEveryStep(t *testing.T) {
	r, want := heldRig(t)
	base := r.fs.Crash(1, mem.CrashOptions{})
	for step := 0; ; step++ {
		c := r.branch(base.Kill(0))
		c.fs = base.Kill(uint64(step))
		c.fs.Inject(&mem.Fault{Kind: core.DiskOpen, Path: rigIdentity(17).dir() + "/*.log", Count: -1})
		c.start()
		if _, err := c.tryOpen(17); !errors.Is(err, syscall.EIO) {
			t.Fatalf("opened with %v", err)
		}
		failing := c.fs.Inject(&mem.Fault{Path: HeldDir + "*", Skip: step})
		err := c.hold()
		if failing.Hits() == 0 {
			if err != nil {
				t.Fatal(err)
			}
			if step < 4 {
				t.Fatalf("only %d steps", step)
			}
			return
		}
		if err == nil {
			t.Fatalf("step %d failed and nobody was told", step)
		}
		c.crash(uint64(step), mem.CrashOptions{})
		c.open(16)
		c.checkHeld(want)
		if err := c.hold(); err != nil {
			t.Fatal(err)
		}
		if n := c.held(); len(n) > 0 {
			t.Fatalf("step %d left %v", step, n)
		}
	}
}

// What was set aside and is hurt later is no reason to start without it: the partition
// is refused by the file's name, the others are served, and the file stays.
func TestHurtHeldFileIsRefusedByName(t *testing.T) {
	r, want := heldRig(t)
	r.fs = r.fs.Kill(1)
	r.fs.Inject(&mem.Fault{Kind: core.DiskOpen, Path: rigIdentity(17).dir() + "/*.log", Count: -1})
	r.start()
	if _, err := r.tryOpen(17); err == nil {
		t.Fatal("it could be opened")
	}
	if err := r.hold(); err != nil {
		t.Fatal(err)
	}
	name := r.held()[0]
	whole := r.readAll(name)
	r.fs.ClearFaults()
	for at := 0; at < len(whole); at += 1 + len(whole)/50 {
		c := r.branch(r.fs.Kill(0))
		hurt := append([]byte(nil), whole...)
		hurt[at] ^= 4
		c.patch(name, 0, hurt)
		c.start()
		if _, err := c.tryOpen(17); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), name) {
			t.Fatalf("byte %d hurt: %v", at, err)
		}
		c.open(16)
		if err := c.hold(); err != nil {
			t.Fatal(err)
		}
		c.patch(name, 0, whole)
		c.start()
		c.checkHeld(want)
	}
}

// What was set aside of a partition goes with its topic.
func TestHeldFilesOfDeletedPartitionsGo(t *testing.T) {
	r, _ := heldRig(t)
	r.fs = r.fs.Kill(1)
	r.fs.Inject(&mem.Fault{Kind: core.DiskOpen, Path: rigIdentity(17).dir() + "/*.log", Count: -1})
	r.start()
	if _, err := r.tryOpen(17); err == nil {
		t.Fatal("it could be opened")
	}
	if err := r.hold(); err != nil {
		t.Fatal(err)
	}
	r.fs.ClearFaults()
	r.kill(2)
	r.open(16)
	if err := r.store.Hold(func(id core.PartitionID) bool { return id != 17 }); err != nil || len(r.held()) != 1 {
		t.Fatalf("of a partition that the metadata does not know %v is left, %v", r.held(), err)
	}
	if err := r.hold(); err != nil || len(r.held()) != 0 {
		t.Fatalf("of a deleted partition %v is left, %v", r.held(), err)
	}
}

// An error of the disk that passes does not cost the partition its service.
func TestOpeningIsTriedAgainWhenTheDiskFails(t *testing.T) {
	r, want := heldRig(t)
	base := r.fs.Crash(1, mem.CrashOptions{})
	for _, kind := range []core.DiskOpKind{core.DiskOpen, core.DiskRead, core.DiskSync, core.DiskSyncDir, core.DiskWrite} {
		for skip := range 6 {
			c := r.branch(base.Kill(0))
			c.fs.Inject(&mem.Fault{Kind: kind, Path: rigIdentity(17).dir() + "*", Skip: skip, Count: openTriesMax - 1})
			c.checkHeld(want)
		}
	}
}

// A segment's end that the device does not give looks like one that was never written.
// It may hold acknowledged records, so it is not cut.
func TestUnreadableEndIsNotCut(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 100)
	r.settle()
	for range 3 {
		o.append(1, 100<<10) // straight to the segment
		r.settle()
	}
	acked := o.log.DurableOffset()
	if acked != 4 {
		t.Fatalf("%d are acknowledged", acked)
	}
	for at := range 8 * 12 {
		good, bad := 5+10*(at/12), 1+5*(at%12)
		c := r.branch(r.fs.Kill(0))
		c.fs.Inject(&mem.Fault{Kind: core.DiskRead, Path: "topics/*.log", Skip: 1}) // the scan's first, so that it reads block by block
		c.fs.Inject(&mem.Fault{Kind: core.DiskRead, Path: "topics/*.log", Skip: good, Count: bad})
		if o, err := c.tryOpen(16); err == nil && o.log.DurableOffset() < acked {
			t.Fatalf("behind %d blocks %d could not be read, and the log ends at %d of %d", good, bad, o.log.DurableOffset(), acked)
		} else if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		c.fs.ClearFaults()
		c.kill(1)
		if o := c.open(16); o.log.DurableOffset() != acked || len(o.log.Damaged()) > 0 {
			t.Fatalf("behind %d blocks %d could not be read, and the next start ends at %d of %d with damage %v", good, bad, o.log.DurableOffset(), acked, o.log.Damaged())
		}
	}
}
