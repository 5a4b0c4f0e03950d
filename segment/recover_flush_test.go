package segment

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// tailRig is a store whose log has a segment, and more behind it in the journal alone
// than the next start keeps in memory. It has been killed, and no log is open.
func tailRig(t *testing.T) (r *rig, want []rigBatch) {
	r = newRig(t, func(o *rigOptions) { o.store.FlushBytes = 4 << 20 })
	o := r.serve(16)[0]
	o.append(1, 100)
	r.settle()
	o.append(1, 100<<10)
	r.settle()
	for range 24 {
		o.append(1, 20<<10)
		r.settle()
	}
	if g := o.log.active(); g == nil || g.lastIndex >= o.log.index || len(o.log.segments) != 1 || o.log.DurableOffset() != o.log.EndOffset() {
		t.Fatalf("the log is not as this test needs it: %d segments, durable %d of %d", len(o.log.segments), o.log.DurableOffset(), o.log.EndOffset())
	}
	r.options.store.FlushBytes = 64 << 10
	r.kill(1)
	return r, o.history
}

// openSpoiled opens a log and spoils the disk when everything is read and synced, before the tail is written.
func (r *rig) openSpoiled(id core.PartitionID, spoil func()) (*rigOwner, error) {
	o := &rigOwner{rig: r, id: id}
	q := []LogRequest{{Identity: rigIdentity(id), Options: r.options.log, Owner: o}}
	r.store.openBegin(&q[0])
	q[0].recovery.look()
	r.store.openRead(&q[0])
	for name, err := range r.store.syncFiles(q) {
		if err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
	spoil()
	r.store.openRest(&q[0], nil)
	o.log, r.owners[id] = q[0].Log, o
	return o, q[0].Err
}

// checkTail wants everything back, at once and after the journal has let it go and the power was cut.
func checkTail(r *rig, o *rigOwner, want []rigBatch) {
	r.t.Helper()
	whole := func(how string) {
		r.t.Helper()
		if n := len(o.history); n == 0 || o.history[n-1].next != want[len(want)-1].next || len(o.log.Damaged()) > 0 {
			r.t.Fatalf("%s: %d batches, the log ends at %d of %d, damage %v", how, n, o.log.EndOffset(), want[len(want)-1].next, o.log.Damaged())
		}
	}
	lose := mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop}
	whole("at the start")
	again := r.branch(r.fs.Crash(3, lose)) // before the store even ran
	again.owners = map[core.PartitionID]*rigOwner{}
	if p := again.open(16); p.log.EndOffset() != want[len(want)-1].next || len(p.log.Damaged()) > 0 {
		r.t.Fatalf("after a power cut during the start: the log ends at %d, damage %v", p.log.EndOffset(), p.log.Damaged())
	}
	driver := r.create(17)
	r.store.Start()
	r.settle()
	o.check(0)
	r.tick(2e9)
	o.append(1, 100)
	r.settle()
	want = append(want, o.history[len(o.history)-1])
	r.recycleAll(driver)
	r.recycleAll(driver)
	r.crash(4, lose)
	o = r.open(16)
	r.open(17)
	r.store.Start()
	whole("after a power cut")
	o.check(0)
	r.stop()
	r.verify()
}

// A start brings to the segment what only the journal holds, and the segment does not
// take it: it ends, another one gets the rest, and the partition is served.
func TestStartEndsASegmentThatTakesNoMore(t *testing.T) {
	segment := rigIdentity(16).dir() + "/*.log"
	for name, f := range map[string]*mem.Fault{
		"a write fails":                  {Kind: core.DiskWrite},
		"a later write fails":            {Kind: core.DiskWrite, Skip: 2},
		"a write is torn in its mark":    {Kind: core.DiskWrite, Action: mem.FaultTear, Bytes: 40},
		"a write is torn in a frame":     {Kind: core.DiskWrite, Action: mem.FaultTear, Bytes: 30 << 10},
		"a write is done and fails":      {Kind: core.DiskWrite, Action: mem.FaultTear, Bytes: 1 << 20},
		"its sync fails":                 {Kind: core.DiskSync},
		"a later sync fails":             {Kind: core.DiskSync, Skip: 1},
		"what is left cannot be cut":     {Kind: core.DiskWrite, Action: mem.FaultTear, Bytes: 50 << 10, Skip: 1},
		"the file is as large as it may": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r, want := tailRig(t)
			o, err := r.openSpoiled(16, func() {
				if f == nil {
					r.fs.SetFileBytes(250 << 10)
					return
				}
				f.Path, f.Err = segment, syscall.EFBIG
				r.fs.Inject(f)
				if name == "what is left cannot be cut" {
					r.fs.Inject(&mem.Fault{Kind: core.DiskTruncate, Path: segment, Count: -1})
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if f != nil && f.Hits() != 1 {
				t.Fatalf("%d faults hit", f.Hits())
			}
			if len(o.log.segments) < 2 || r.store.stats.Failures == 0 {
				t.Fatalf("%d segments, %d failures counted", len(o.log.segments), r.store.stats.Failures)
			}
			r.fs.ClearFaults()
			r.fs.SetFileBytes(1 << 40)
			checkTail(r, o, want)
		})
	}
}

// A full disk at a start: the partition is served from memory, and goes to its segment
// when there is room. What a failed write has left is not gone on in.
func TestStartOnAFullDiskKeepsTheTail(t *testing.T) {
	segment := rigIdentity(16).dir() + "/*.log"
	for name, f := range map[string]*mem.Fault{
		"a write":                  {Kind: core.DiskWrite},
		"a torn write":             {Kind: core.DiskWrite, Action: mem.FaultTear, Bytes: 30 << 10},
		"a sync":                   {Kind: core.DiskSync},
		"a later write":            {Kind: core.DiskWrite, Skip: 1},
		"a creation":               {Kind: core.DiskCreate},
		"the header of a new file": {Kind: core.DiskWrite},
		"the sync of a new file":   {Kind: core.DiskSync},
	} {
		t.Run(name, func(t *testing.T) {
			r, want := tailRig(t)
			f.Path, f.Err, f.Count = segment, syscall.ENOSPC, -1
			o, err := r.openSpoiled(16, func() {
				if strings.HasSuffix(name, "new file") || f.Kind == core.DiskCreate {
					r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: segment, Err: syscall.EFBIG})
				}
				r.fs.Inject(f)
			})
			if err != nil {
				t.Fatal(err)
			}
			if f.Hits() == 0 {
				t.Fatal("the disk was not full")
			}
			r.fs.ClearFaults()
			if list, err := r.fs.List(rigIdentity(16).dir()); err != nil || len(list) != 1 {
				t.Fatalf("of a file that could not be made something is left: %v (%v)", list, err)
			}
			checkTail(r, o, want)
		})
	}
}

// A first write that a new segment does not take is told, and leaves no empty file.
func TestStartTellsOfASegmentThatTakesNothing(t *testing.T) {
	r, want := tailRig(t)
	own := rigIdentity(16).dir()
	before, err := r.fs.List(own)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.openSpoiled(16, func() {
		// The first chunk finds no room in the old file, and none in a new one behind its header.
		r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: own + "/*.log", Err: syscall.EFBIG})
		r.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: own + "/*.log", Skip: 1, Count: -1, Err: syscall.EFBIG})
	}); !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("the log was opened: %v", err)
	}
	after, err := r.fs.List(own)
	if err != nil || len(after) != len(before) {
		t.Fatalf("%d files before, %v after (%v)", len(before), after, err)
	}
	r.fs.ClearFaults()
	r.kill(2)
	checkTail(r, r.open(16), want)
}
