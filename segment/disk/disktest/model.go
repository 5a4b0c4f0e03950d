package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
)

// modelFile is a file of the model: its content, and the ids it is open under.
type modelFile struct{ data []byte }

// testModel runs random operations, in random chains, against a map.
func testModel(f *fixture) {
	round := 0
	rapid.Check(f.T, func(t *rapid.T) {
		round++
		top := fmt.Sprintf("round%d", round)
		f.must(named(core.DiskMakeDir, top))
		names := map[string]*modelFile{}
		open := map[core.FileID]*modelFile{}
		defer func() {
			for id := range open {
				f.close(id)
			}
			if err := f.FS.RemoveAll(top); err != nil {
				t.Fatal(err)
			}
		}()
		name := func() string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name") }
		pick := func() (core.FileID, *modelFile) {
			var ids []core.FileID
			for id := core.FileID(1); id <= FilesMax; id++ {
				if open[id] != nil {
					ids = append(ids, id)
				}
			}
			if len(ids) == 0 {
				t.Skip()
			}
			id := rapid.SampledFrom(ids).Draw(t, "file")
			return id, open[id]
		}
		pages := func(label string, low, high int) int { return page * rapid.IntRange(low, high).Draw(t, label) }
		stamp := byte(0)

		// step draws a file operation, does it to the model, and says how to check
		// what it read.
		step := func(id core.FileID, m *modelFile) (*core.DiskOp, []byte) {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0, 1:
				offset, length := pages("offset", 0, 8), pages("length", 1, 4)
				stamp++
				m.grow(offset + length)
				copy(m.data[offset:], filled(length, stamp))
				return write(id, int64(offset), filled(length, stamp)), nil
			case 2:
				offset, length := pages("offset", 0, 10), pages("length", 1, 6)
				want := m.data[min(offset, len(m.data)):min(offset+length, len(m.data))]
				return read(id, int64(offset), length), append([]byte{}, want...)
			case 3:
				offset, length := pages("offset", 0, 8), pages("length", 1, 4)
				m.grow(offset + length)
				clear(m.data[offset : offset+length])
				return &core.DiskOp{Kind: core.DiskAllocate, File: id, Offset: int64(offset), Length: int64(length)}, nil
			case 4:
				size := pages("size", 0, 8)
				m.grow(size)
				m.data = m.data[:size:size]
				return &core.DiskOp{Kind: core.DiskTruncate, File: id, Length: int64(size)}, nil
			}
			return sync(id), nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				if len(open) == FilesMax {
					t.Skip()
				}
				n := name()
				create := rapid.Bool().Draw(t, "create")
				op := named(core.DiskOpen, top+"/"+n)
				if create {
					op.Kind = core.DiskCreate
				}
				f.do(op)
				switch {
				case create && names[n] != nil:
					if !errors.Is(op.Err, fs.ErrExist) {
						t.Fatalf("create %s: %v", n, op.Err)
					}
					return
				case !create && names[n] == nil:
					if !errors.Is(op.Err, fs.ErrNotExist) {
						t.Fatalf("open %s: %v", n, op.Err)
					}
					return
				case op.Err != nil:
					t.Fatal(op.Err)
				case open[op.File] != nil:
					t.Fatalf("file id %d was given out twice", op.File)
				}
				if create {
					names[n] = &modelFile{}
				}
				open[op.File] = names[n]
			},
			"close": func(*rapid.T) {
				id, _ := pick()
				f.close(id)
				delete(open, id)
			},
			"chains": func(t *rapid.T) {
				// At once, but each on a file of its own: what one chain reads does not
				// depend on how far another is.
				type expected struct {
					op   *core.DiskOp
					want []byte
				}
				var all []expected
				busy := map[*modelFile]bool{}
				for range rapid.IntRange(1, 3).Draw(t, "chains") {
					id, m := pick()
					if busy[m] {
						continue
					}
					busy[m] = true
					var ops []*core.DiskOp
					for range rapid.IntRange(1, 6).Draw(t, "length") {
						op, want := step(id, m)
						ops, all = append(ops, op), append(all, expected{op, want})
					}
					f.submit(ops...)
				}
				f.drain()
				for _, e := range all {
					if e.op.Err != nil {
						t.Fatalf("%s: %v", e.op.Kind, e.op.Err)
					}
					if e.op.Kind == core.DiskRead && !bytes.Equal(e.op.Buf[:e.op.N], e.want) {
						t.Fatalf("read %d bytes at %d, want %d; or other ones", e.op.N, e.op.Offset, len(e.want))
					}
				}
			},
			"rename": func(t *rapid.T) {
				from, to := name(), name()
				op := &core.DiskOp{Kind: core.DiskRename, Path: top + "/" + from, PathNew: top + "/" + to}
				f.do(op)
				if names[from] == nil {
					if !errors.Is(op.Err, fs.ErrNotExist) {
						t.Fatalf("rename %s: %v", from, op.Err)
					}
					return
				}
				if op.Err != nil {
					t.Fatal(op.Err)
				}
				m := names[from]
				delete(names, from)
				names[to] = m
			},
			"remove": func(t *rapid.T) {
				n := name()
				op := named(core.DiskRemove, top+"/"+n)
				f.do(op)
				if (op.Err == nil) != (names[n] != nil) {
					t.Fatalf("remove %s: %v", n, op.Err)
				}
				delete(names, n)
			},
			"": func(t *rapid.T) {
				entries, err := f.FS.List(top)
				if err != nil {
					t.Fatal(err)
				}
				if len(entries) != len(names) {
					t.Fatalf("%v in the folder, %d in the model", entries, len(names))
				}
				for _, e := range entries {
					if m := names[e.Name]; m == nil || int64(len(m.data)) != e.Size {
						t.Fatalf("%+v is not in the model", e)
					}
				}
			},
		})
	})
}

func (m *modelFile) grow(size int) {
	if size > len(m.data) {
		m.data = append(m.data, make([]byte, size-len(m.data))...)
	}
}
