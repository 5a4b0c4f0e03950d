package segment

import (
	"cmp"
	"slices"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A torn end may have whole groups behind it. The recovery that cuts there makes
// them void; the next one must not take them for a sign that something is missing.
func TestVoidGroupsAreNoDamage(t *testing.T) {
	beyond := 0
	for seed := range uint64(40) {
		r := newRig(t, func(o *rigOptions) { o.log = LogOptions{Durability: core.DurabilityBatch, FlushNanos: 1e18} })
		o := r.serve(16)[0]
		r.settle()
		for i := range 6 {
			if err := o.tryAppend(1+i%3, 200+int(seed)*20, core.DurabilityBatch); err != nil {
				t.Fatal(err)
			}
			r.settle()
		}
		r.crash(seed, mem.CrashOptions{})
		o = r.open(16)
		r.store.Start()
		if r.store.stats.JournalDamages != 0 {
			t.Fatalf("seed %d: a torn end is called damage", seed)
		}
		if err := o.tryAppend(1, 100, core.DurabilitySync); err != nil { // synced: now something calls groups synced that have higher sequences
			t.Fatal(err)
		}
		r.settle()
		end := o.log.EndOffset()
		r.crash(seed, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
		for _, g := range journalGroupsOf(t, r) {
			if g.void {
				beyond++
			}
		}
		o = r.open(16)
		r.store.Start()
		if r.store.stats.JournalDamages != 0 {
			t.Fatalf("seed %d: groups that the first recovery cut are called damage by the second", seed)
		}
		if got := o.log.EndOffset(); got != end || len(o.log.Damaged()) > 0 {
			t.Fatalf("seed %d: the log ends at %d with damage %v, want %d and none", seed, got, o.log.Damaged(), end)
		}
	}
	if beyond == 0 {
		t.Fatal("no crash left a whole group behind a torn one: the test tests nothing")
	}
}

// journalGroupsOf are the groups of the store's first journal file, as a replay sees them.
func journalGroupsOf(t *testing.T, r *rig) []replayGroup {
	t.Helper()
	f, err := scanJournalFile(r.folder, 0, r.folder.journals[0][0])
	if err != nil {
		t.Fatal(err)
	}

	slices.SortFunc(f.groups, func(a, b replayGroup) int { return cmp.Compare(a.Sequence, b.Sequence) })
	voidGroups(f.groups)
	return f.groups
}
