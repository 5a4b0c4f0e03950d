package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// Small batches go through the journal, and their tail to the segment whenever
// enough has gathered, long before the journal is full: else a partition would
// run into its bound and refuse batches until something else flushed it.
func TestTailGoesToItsSegmentByItself(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.folder.JournalBytes, o.folder.JournalFileBytes = 256<<20, 64<<20
		o.store.FlushBytes = 1 << 20
	})
	o := r.serve(1)[0]
	if got := (Options{FlushBytes: 1 << 40}).withDefaults().FlushBytes; got > logDirtyBytesMax/2 {
		t.Errorf("a log may be refused before %d bytes have gathered", got)
	}
	const batch = 60 << 10
	for i := range logDirtyBytesMax/batch + 8 {
		if err := o.tryAppend(1, batch, core.DurabilitySync); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		r.settle()
	}
	stats := r.store.Stats()
	if stats.JournalRecycles != 0 || stats.SegmentBytes < logDirtyBytesMax-2<<20 {
		t.Errorf("%d bytes in segments, %d recycles", stats.SegmentBytes, stats.JournalRecycles)
	}
}
