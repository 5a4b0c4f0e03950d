package segment

import (
	"path"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// readRange is a part of a file that was read.
type readRange struct {
	path string
	from int64
	to   int64
}

// watchedFS notes what is read through it.
type watchedFS struct {
	core.FS
	reads []readRange
}

type watchedFile struct {
	core.File
	fs   *watchedFS
	path string
}

func (w *watchedFS) Open(name string) (core.File, error) {
	f, err := w.FS.Open(name)
	return &watchedFile{f, w, name}, err
}

func (w *watchedFS) OpenRead(name string) (core.File, error) {
	f, err := w.FS.OpenRead(name)
	return &watchedFile{f, w, name}, err
}

func (f *watchedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.fs.reads = append(f.fs.reads, readRange{f.path, at, at + int64(n)})
	return n, err
}

// A start reads what lies behind the newest state: of the segments before only the
// headers, of the state's own segment nothing between the header and the state's
// point. A bad index changes nothing about that: it is rebuilt when it is asked
// for, for its segment alone.
func TestStartReadsWhatLiesBehindTheState(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.log.SegmentBytes = 4 << 20
		o.store.StateBytes = 1 << 20
	})
	o := r.serve(16)[0]
	o.append(1, 10)
	r.settle()
	for range 23 {
		o.append(1, 500<<10)
		r.settle()
		r.tick(1e6)
	}
	history, sum := o.history, o.sum
	segments := len(o.log.segments)
	dir := rigIdentity(16).dir()
	base := r.fs.Kill(0)
	for _, spoilt := range []bool{false, true} {
		c := r.branch(base.Kill(0))
		if list, err := c.fs.List(dir); err != nil {
			t.Fatal(err)
		} else if spoilt {
			indexes := 0
			for _, e := range list {
				if strings.HasSuffix(e.Name, IndexExtension) {
					c.patch(path.Join(dir, e.Name), FileHeaderBytes+8, []byte{0xff, 0xff})
					indexes++
				}
			}
			if indexes == 0 {
				t.Fatal("there is no index to spoil")
			}
		}
		watched := &watchedFS{FS: c.fs}
		c.store.ports.FS = watched
		o := c.open(16)
		if o.sum != sum || len(o.log.segments) != segments {
			t.Fatal("the state or the segments differ")
		}
		var state State
		for _, g := range o.log.segments {
			if g.statePoint > state.Index {
				state.Index, state.Segment = g.statePoint, g.header.Segment
			}
		}
		point, err := latestPosition(c, dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if point < 2*scanWindowBytes {
			t.Fatalf("the newest state is at %d of its segment: too near to its beginning to tell", point)
		}
		for _, read := range watched.reads {
			_, number, extension, ok := ParseSegmentName(path.Base(read.path))
			if !ok || extension == StateExtension {
				continue
			}
			switch {
			case extension == IndexExtension:
				t.Errorf("index %s was read by the start", read.path)
			case number < state.Segment && read.to > 2*FileHeaderBytes:
				t.Errorf("%s lies before the state, and [%d, %d) of it was read", read.path, read.from, read.to)
			case number == state.Segment && read.from >= FileHeaderBytes && read.from < point:
				t.Errorf("[%d, %d) of %s was read, the state's point is %d", read.from, read.to, read.path, point)
			}
		}
		c.workers.full = false
		c.store.Start()
		o.history = history
		o.check(o.log.segments[0].next - 1) // the answers are the same, by the index
		o.check(0)                          // and without
		if rebuilt := c.store.stats.IndexesRebuilt > 0; spoilt && !rebuilt {
			t.Error("a spoilt index was not rebuilt")
		}
	}
}

// latestPosition is where the newest state's point lies in its segment.
func latestPosition(r *rig, dir string, o *rigOwner) (int64, error) {
	state, _, err := LatestValidState(r.fs, dir, &o.log.segments[0].header, func(*State) bool { return true })
	if err != nil {
		return 0, err
	}
	return state.Position, nil
}
