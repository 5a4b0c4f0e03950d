package segment

import (
	"path"
	"slices"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// A folder that reads like a known partition's and is not written like it would never be
// opened: it is moved aside by name instead of lying there unseen.
func TestQuarantineOfNamesThatReadAlike(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16)
	owners[0].append(1, 100)
	r.settle()
	owners[0].append(1, 100<<10)
	r.settle()
	id := rigIdentity(16)
	dir := id.dir()
	topic := path.Dir(dir)
	for _, name := range []string{"01", "00000001"} {
		if err := r.fs.MakeDir(path.Join(topic, name)); err != nil {
			t.Fatal(err)
		}
	}
	moved, err := r.folder.QuarantineFolders(func(core.TopicID, core.PartitionNumber, core.PartitionID) bool { return true })
	if err != nil || len(moved) != 2 || slices.Contains(moved, path.Join(QuarantineDir, path.Base(topic), path.Base(dir))) {
		t.Fatalf("moved %v, %v", moved, err)
	}
	if list, err := r.fs.List(dir); err != nil || len(list) == 0 {
		t.Fatalf("the partition's own folder: %v, %v", list, err)
	}
}
