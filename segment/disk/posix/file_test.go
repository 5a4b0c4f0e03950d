package posix_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// What is done for each state file of a partition puts nothing on the heap: files,
// names and folders.
func TestFilesAllocateNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names are resolved by os.Root here")
	}
	files := openFolder(t, t.TempDir(), posix.FolderOptions{}).FS()
	dir := "topics/" + strings.Repeat("0123456789abcdef", 2) + "/1000"
	if err := files.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	name, fresh := dir+"/00000000000000000000-0000000001.state", dir+"/00000000000000000000-0000000001.state.new"
	b, read := []byte("a state"), make([]byte, 7)
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	turn := func() {
		file, err := files.Create(fresh)
		if err != nil {
			note(err)
			return
		}
		_, err = file.WriteAt(b, 0)
		note(err)
		note(file.Sync())
		note(file.Close())
		if file, err = files.OpenRead(fresh); err != nil {
			note(err)
			return
		}
		_, err = file.Size()
		note(err)
		_, err = file.ReadAt(read, 0)
		note(err)
		note(file.Close())
		note(files.Rename(fresh, name))
		note(files.SyncDir(dir))
		if file, err = files.Open(name); err != nil {
			note(err)
			return
		}
		note(file.Truncate(4))
		note(file.Close())
		note(files.Remove(name))
	}
	for range 20 { // until there are files to use again
		turn()
	}
	if n := testing.AllocsPerRun(50, turn); n != 0 {
		t.Errorf("%v objects for each turn", n)
	}
	if failed != nil || string(read) != string(b) {
		t.Fatalf("read %q, %v", read, failed)
	}
}

// A file that is used behind its end is told so: it has not become another one.
func TestClosedFileIsNobodyElses(t *testing.T) {
	files := openFolder(t, t.TempDir(), posix.FolderOptions{}).FS()
	for i := range 200 {
		file, err := files.Create(fmt.Sprintf("a-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		other, err := files.Create(fmt.Sprintf("b-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte("lost"), 0); err == nil {
			t.Fatal("a closed file was written to")
		}
		if err := file.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("closed twice: %v", err)
		}
		if n, err := other.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
			t.Fatalf("the other file has %d bytes, %v", n, err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A path longer than most is no different.
func TestLongPath(t *testing.T) {
	files := openFolder(t, t.TempDir(), posix.FolderOptions{}).FS()
	dir := strings.TrimSuffix(strings.Repeat(strings.Repeat("d", 100)+"/", 8), "/")
	if err := files.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	name := dir + "/" + strings.Repeat("n", 255)
	file, err := files.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Close(), files.SyncDir(dir), files.Rename(name, dir+"/m"), files.Remove(dir+"/m")); err != nil {
		t.Fatal(err)
	}
}
