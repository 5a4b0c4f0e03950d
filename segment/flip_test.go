package segment

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// everyFile lists the files of a disk with their sizes.
func everyFile(t *testing.T, fs *mem.FS, dir string, found map[string]int64) {
	t.Helper()
	list, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		name := path.Join(dir, e.Name)
		if e.IsDir {
			everyFile(t, fs, name, found)
		} else {
			found[name] = e.Size
		}
	}
}

// A flipped bit anywhere, in a header, a checksum or a body of any kind of file, is
// never served as a record: what a reader gets is what was appended, or the range
// that is damaged. What lies before and behind stays readable, nothing that was
// acked is cut or used again, and the start succeeds.
func TestFlipAnywhere(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.log.SegmentBytes = 128 << 10
		o.store.StateBytes = 64 << 10
	})
	ids := []core.PartitionID{16, 17}
	owners := r.serve(ids...)
	for _, o := range owners {
		o.append(2, 30)
		r.settle()
		for range 4 {
			o.append(1, 66<<10)
			r.settle()
			r.tick(1e6)
		}
		o.append(3, 200)
		r.settle()
	}
	for range 3 { // these stay in the journal
		for _, o := range owners {
			o.append(1, 500)
		}
		r.settle()
	}
	r.stop()
	base := r.fs.Kill(0)
	files := map[string]int64{}
	everyFile(t, base, ".", files)
	kinds := map[string]int{}
	for _, name := range namesSorted(files) {
		for _, at := range flipPlaces(base, t, name) {
			kinds[path.Ext(name)]++
			flipOne(t, r, base, name, at)
		}
	}
	for _, kind := range []string{LogExtension, IndexExtension, StateExtension, ".jnl", ""} {
		if kinds[kind] < 10 {
			t.Errorf("%d places of files %q were flipped", kinds[kind], kind)
		}
	}
}

func namesSorted(files map[string]int64) (names []string) {
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// flipPlaces are the places of a file to flip: in its header and its checksums, and
// behind that ever further apart where something is written.
func flipPlaces(fs *mem.FS, t *testing.T, name string) (places []int64) {
	raw := (&rig{t: t, fs: fs}).readAll(name)
	if path.Ext(name) == ".jnl" && allZero(raw[FileHeaderBytes:]) {
		return []int64{9, 90} // one that was never used
	}
	places = append(places, 0, 4, 6, 9, 30, 47, 70, 88, 150, FileHeaderBytes-1)
	last := int64(len(raw))
	for last > 0 && raw[last-1] == 0 {
		last--
	}
	step := int64(13)
	for at := int64(FileHeaderBytes); at < last; at += step {
		places = append(places, at)
		step += step * 2 / 3
	}
	return append(places, last-1)
}

func flipOne(t *testing.T, r *rig, base *mem.FS, name string, at int64) {
	t.Helper()
	c := *r
	c.ops, c.fs = nil, base.Kill(0)
	raw := c.readAll(name)
	if at >= int64(len(raw)) {
		return
	}
	c.patch(name, at, []byte{raw[at] ^ 8})
	if err := c.tryStart(); err != nil {
		t.Errorf("%s at %d: the start failed: %v", name, at, err)
		return
	}
	for _, id := range []core.PartitionID{16, 17} {
		was := r.owners[id]
		o, err := c.tryOpen(id)
		if err != nil {
			t.Errorf("%s at %d: partition %d: %v", name, at, id, err)
			continue
		}
		ours := strings.HasPrefix(name, rigIdentity(id).dir()) || strings.HasSuffix(name, ".jnl")
		if o.log.EndOffset() != was.log.EndOffset() {
			t.Errorf("%s at %d: partition %d ends at %d, want %d", name, at, id, o.log.EndOffset(), was.log.EndOffset())
		}
		if !ours && len(o.log.Damaged()) > 0 {
			t.Errorf("%s at %d: partition %d is damaged too: %+v", name, at, id, o.log.Damaged())
		}
	}
	c.store.Start()
	for id, o := range c.owners {
		damaged := 0
		for _, b := range r.owners[id].history {
			got, err := o.read(b.base, b.next, 1<<20)
			var corrupt *CorruptError
			switch {
			case errors.As(err, &corrupt):
				if corrupt.Start > b.base || corrupt.Next <= b.base {
					t.Errorf("%s at %d: reading %d answers the range [%d, %d)", name, at, b.base, corrupt.Start, corrupt.Next)
				}
				damaged++
			case err != nil:
				t.Errorf("%s at %d: reading %d: %v", name, at, b.base, err)
			case string(got) != string(b.bytes):
				t.Errorf("%s at %d: wrong bytes at offset %d", name, at, b.base)
			}
		}
		// One place hurts one write at most; in the journal one group.
		if damaged > 2 {
			t.Errorf("%s at %d: %d batches of partition %d are damaged", name, at, damaged, id)
		}
	}
}
