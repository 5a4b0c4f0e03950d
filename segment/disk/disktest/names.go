package disktest

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/contract"
)

// fails runs one operation and returns its error, which must be there.
func (f *fixture) fails(op *core.DiskOp) error {
	f.Helper()
	if f.do(op); op.Err == nil {
		f.Errorf("%s %q succeeded", op.Kind, op.Path)
	}
	return op.Err
}

func (f *fixture) names(path string) string {
	f.Helper()
	entries, err := f.FS.List(path)
	if err != nil {
		f.Fatalf("List(%q): %v", path, err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir {
			e.Name += "/"
		}
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func testNames(f *fixture) {
	f.must(named(core.DiskMakeDir, "x/y/z"))
	f.must(named(core.DiskMakeDir, "x/y/z"))
	f.must(named(core.DiskMakeDir, "."))
	file := f.create("x/y/a")
	if err := f.fails(named(core.DiskCreate, "x/y/a")); !errors.Is(err, fs.ErrExist) {
		f.Errorf("create of what exists: %v", err)
	}
	for _, op := range []*core.DiskOp{
		named(core.DiskOpen, "x/b"), named(core.DiskOpen, "q/b"), named(core.DiskCreate, "q/b"), named(core.DiskRemove, "x/b"),
		named(core.DiskSyncDir, "q"), {Kind: core.DiskRename, Path: "x/b", PathNew: "x/c"},
		{Kind: core.DiskRename, Path: "x/y/a", PathNew: "q/a"},
	} {
		if err := f.fails(op); !errors.Is(err, fs.ErrNotExist) {
			f.Errorf("%s %q: %v, want that it does not exist", op.Kind, op.Path, err)
		}
	}
	f.fails(named(core.DiskMakeDir, "x/y/a"))
	f.fails(named(core.DiskOpen, "x/y"))
	f.fails(named(core.DiskSyncDir, "x/y/a"))
	f.fails(named(core.DiskRemove, "x")) // not empty
	for _, path := range []string{"x/y", "x", ".", ""} {
		f.must(named(core.DiskSyncDir, path))
	}
	f.close(file)
	if got := f.names("x/y"); got != "a z/" {
		f.Errorf("x/y holds %q", got)
	}
	f.must(named(core.DiskRemove, "x/y/a"))
	f.must(named(core.DiskRemove, "x/y/z"))
	if got := f.names("x/y"); got != "" {
		f.Errorf("x/y holds %q", got)
	}
}

// Nothing outside the data folder can be named.
func testPaths(f *fixture) {
	for _, path := range []string{"..", "../a", "a/../../b", "/etc/passwd", "a//b", "a/", "./a", "a\x00b", "a\\b", "a/./b"} {
		for _, kind := range []core.DiskOpKind{
			core.DiskOpen, core.DiskCreate, core.DiskRemove, core.DiskRename, core.DiskSyncDir, core.DiskMakeDir,
		} {
			op := named(kind, path)
			op.PathNew = "fine"
			if err := f.fails(op); !errors.Is(err, contract.ErrPath) {
				f.Errorf("%s %q: %v", kind, path, err)
			}
		}
		if _, err := f.FS.List(path); !errors.Is(err, contract.ErrPath) {
			f.Errorf("List(%q): %v", path, err)
		}
	}
	file := f.create("a")
	if err := f.fails(&core.DiskOp{Kind: core.DiskRename, Path: "a", PathNew: "../a"}); !errors.Is(err, contract.ErrPath) {
		f.Errorf("rename out of the folder: %v", err)
	}
	for _, kind := range []core.DiskOpKind{core.DiskOpen, core.DiskCreate, core.DiskRemove} {
		if err := f.fails(named(kind, "")); !errors.Is(err, contract.ErrPath) {
			f.Errorf("%s of the data folder itself: %v", kind, err)
		}
	}
	f.close(file)
}

func testRename(f *fixture) {
	a, b := f.create("a"), f.create("b")
	f.must(write(a, 0, filled(page, 1)))
	f.must(write(b, 0, filled(page, 2)))
	f.must(&core.DiskOp{Kind: core.DiskRename, Path: "a", PathNew: "b"})
	if got := f.names("."); got != "b" {
		f.Errorf("the folder holds %q", got)
	}
	// An open file keeps its content, whatever its name became.
	if got := f.read(a, 0, page); got[0] != 1 {
		f.Errorf("the renamed file holds %d", got[0])
	}
	if got := f.read(b, 0, page); got[0] != 2 {
		f.Errorf("the replaced file holds %d", got[0])
	}
	opened := f.must(named(core.DiskOpen, "b")).File
	if got := f.read(opened, 0, page); got[0] != 1 {
		f.Errorf("the new name leads to %d", got[0])
	}
	f.must(named(core.DiskMakeDir, "x"))
	f.must(&core.DiskOp{Kind: core.DiskRename, Path: "b", PathNew: "x/c"})
	f.must(&core.DiskOp{Kind: core.DiskRename, Path: "x", PathNew: "y"})
	if got := f.names("y"); got != "c" {
		f.Errorf("y holds %q", got)
	}
	f.fails(&core.DiskOp{Kind: core.DiskRename, Path: "y", PathNew: "y/z"})
}

func testUnlinked(f *fixture) {
	file := f.create("a")
	f.must(write(file, 0, filled(page, 1)))
	f.must(named(core.DiskRemove, "a"))
	f.must(write(file, page, filled(page, 2)))
	if got := f.read(file, 0, 2*page); len(got) != 2*page || got[0] != 1 || got[page] != 2 {
		f.Errorf("%d bytes of a removed file", len(got))
	}
	again := f.create("a")
	if got := f.read(again, 0, page); len(got) != 0 {
		f.Errorf("a new file with the removed one's name holds %d bytes", len(got))
	}
	f.close(file)
	f.close(again)
}

func testViewsAgree(f *fixture) {
	blocking, err := f.FS.Create("a")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := blocking.WriteAt(filled(2*page, 4), 0); err != nil {
		f.Fatal(err)
	}
	if err := blocking.Sync(); err != nil {
		f.Fatal(err)
	}
	file := f.must(named(core.DiskOpen, "a")).File
	if got := f.read(file, 0, 4*page); !bytes.Equal(got, filled(2*page, 4)) {
		f.Errorf("the driver reads %d bytes", len(got))
	}
	f.do(write(file, page, filled(2*page, 5)), sync(file))
	got := make([]byte, 3*page)
	if _, err := blocking.ReadAt(got, 0); err != nil {
		f.Fatal(err)
	}
	if !bytes.Equal(got, append(filled(page, 4), filled(2*page, 5)...)) {
		f.Error("the blocking view does not see what the driver wrote")
	}
	if err := blocking.Close(); err != nil {
		f.Error(err)
	}
}
