package segment

import (
	"path"
	"testing"

	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// BenchmarkStateWrite is what a partition costs beside its produce requests, once per
// Options.StateBytes of frames: a state file in a real folder. Its allocations, over the
// requests that bring so many bytes, are what row objects of pulsebench counts for
// large batches.
func BenchmarkStateWrite(b *testing.B) {
	folder, err := posix.OpenFolder(b.TempDir(), posix.FolderOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer folder.Close()
	files := folder.FS()
	if err := files.MakeDir(testDir); err != nil {
		b.Fatal(err)
	}
	h := testHeader(4, 100, 50)
	w := &StateWrite{Files: files, Fresh: StateFresh(path.Join(testDir, SegmentName(h.BaseOffset, h.Segment))), Segment: h, State: testState(h, 0)}
	b.ReportAllocs()
	for b.Loop() {
		w.Run()
		if w.Err != nil {
			b.Fatal(w.Err)
		}
	}
}
