package segment

import (
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// badBlocks is a disk that does not give some blocks of journal files.
type badBlocks struct {
	core.FS
	at []int64 // positions of blocks, ascending
}

func (b *badBlocks) OpenRead(path string) (core.File, error) {
	f, err := b.FS.OpenRead(path)
	if err != nil {
		return nil, err
	}
	return &badFile{f, b}, nil
}

type badFile struct {
	core.File
	disk *badBlocks
}

func (f *badFile) ReadAt(p []byte, at int64) (int, error) {
	for _, bad := range f.disk.at {
		if bad < at+int64(len(p)) && at < bad+core.DiskAlignment {
			n, _ := f.File.ReadAt(p[:max(bad-at, 0)], at)
			return n, syscall.EIO
		}
	}
	return f.File.ReadAt(p, at)
}

// Blocks of the journal that the disk does not give cost what they hold: the start goes on, and the groups before, between
// and behind them are replayed.
func TestUnreadableJournalBlocksCostTheirGroups(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	for range 12 {
		o.append(1, 300)
		r.settle()
	}
	end := o.log.DurableOffset()
	r.kill(1)
	replay, err := replayJournal(r.folder, 0, r.store.log)
	if err != nil {
		t.Fatal(err)
	}
	disk := &badBlocks{}
	var lost []core.Offset
	for _, i := range []int{3, 6} { // of the frames of records
		for _, f := range replay.partitions[16].frames {
			if f.kind == FrameData && f.base == core.Offset(i) {
				disk.at = append(disk.at, f.position&^(core.DiskAlignment-1))
				lost = append(lost, f.base)
			}
		}
	}
	if len(lost) != 2 || disk.at[1]-disk.at[0] < 2*core.DiskAlignment {
		t.Fatalf("the blocks of two frames apart were looked for and are %v", disk.at)
	}
	r.options.files = func(files core.FS) core.FS { disk.FS = files; return disk }
	r.kill(1)
	l := r.open(16).log
	if l.EndOffset() != end {
		t.Errorf("the log ends at %d, %d was acknowledged", l.EndOffset(), end)
	}
	damaged := l.Damaged()
	if len(damaged) != len(lost) {
		t.Fatalf("damage %v, want offsets %v", damaged, lost)
	}
	for i, d := range damaged {
		if d.Start != lost[i] || d.Next != lost[i]+1 {
			t.Errorf("damage of [%d, %d), want offset %d", d.Start, d.Next, lost[i])
		}
	}
}
