package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

// reclaimed is a folder with a file of some steps that is open beside it, to look at once it has no name.
func reclaimed(t *testing.T, name string) (*Folder, *os.File) {
	t.Helper()
	folder, err := OpenFolder(t.TempDir(), FolderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	if err := os.MkdirAll(filepath.Join(folder.dir, filepath.Dir(name)), 0o777); err != nil {
		t.Fatal(err)
	}
	return folder, sized(t, filepath.Join(folder.dir, name), 3*reclaimStepBytes+1)
}

func sized(t *testing.T, path string, size int64) *os.File {
	t.Helper()
	file, err := os.Create(path)
	if err == nil {
		t.Cleanup(func() { _ = file.Close() })
		err = file.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// until waits for a file to have a size.
func until(t *testing.T, file *os.File, want int64) {
	t.Helper()
	size := int64(-1)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if info, err := file.Stat(); err != nil {
			t.Fatal(err)
		} else if size = info.Size(); size == want {
			return
		}
	}
	t.Fatalf("it has %d bytes; %d should be left", size, want)
}

// Every way in which a name goes gives a large file back in steps: the last one is left for its end.
func TestLargeFilesGoInSteps(t *testing.T) {
	for name, remove := range map[string]func(*Folder, string) error{
		"operation": func(f *Folder, path string) error {
			op := &core.DiskOp{Kind: core.DiskRemove, Path: path}
			f.Execute(op, nil)
			return op.Err
		},
		"remove":     func(f *Folder, path string) error { return f.FS().Remove(path) },
		"remove all": func(f *Folder, path string) error { return f.FS().RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			folder, file := reclaimed(t, "a/b/c")
			if err := remove(folder, "a/b/c"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(folder.dir, "a/b/c")); !os.IsNotExist(err) {
				t.Errorf("its name is still there: %v", err)
			}
			until(t, file, 1)
		})
	}
}

// What has another name keeps its bytes: a copy of the data folder may be made of hard links.
func TestOtherNamesKeepTheirBytes(t *testing.T) {
	folder, file := reclaimed(t, "a")
	if err := os.Link(filepath.Join(folder.dir, "a"), filepath.Join(folder.dir, "b")); err != nil {
		t.Skip(err)
	}
	if err := folder.FS().Remove("a"); err != nil {
		t.Fatal(err)
	}
	if n := folder.reclaimer.queue.Len(); n > 0 || folder.reclaimer.running {
		t.Errorf("%d files wait to be cut shorter", n)
	}
	until(t, file, 3*reclaimStepBytes+1)
	if err := folder.FS().Remove("b"); err != nil {
		t.Fatal(err)
	}
	until(t, file, 1)
}

// However many files are removed, so many are held open; and a folder that is closed holds none.
func TestReclaimerIsBounded(t *testing.T) {
	folder, err := OpenFolder(t.TempDir(), FolderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := &folder.reclaimer
	r.running = true // nobody takes anything out
	for i := range reclaimFilesMax + 10 {
		name := fmt.Sprint(i)
		file := sized(t, filepath.Join(folder.dir, name), reclaimStepBytes+1)
		if err := folder.FS().Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.queue.Len(); n != reclaimFilesMax || r.bytes != int64(n)*(reclaimStepBytes+1) {
		t.Errorf("%d files of %d bytes are held, %d of %d are allowed", n, r.bytes, reclaimFilesMax, reclaimStepBytes+1)
	}
	held := make([]*File, r.queue.Len())
	for i := range held {
		held[i] = *r.queue.At(i)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	r.run()
	if n := r.queue.Len(); n != 0 || r.bytes != 0 || r.running {
		t.Errorf("%d files of %d bytes are held by a closed folder", n, r.bytes)
	}
	for _, file := range held {
		if err := unix.Fstat(file.FD(), new(unix.Stat_t)); file.FD() >= 0 && err == nil {
			t.Fatal("a file is still open")
		}
	}
}

// All that waits is given back in the time that it may take, and never slower than the least rate.
func TestReclaimerHurries(t *testing.T) {
	for _, waiting := range []int64{4 * reclaimStepBytes, 1 << 30, 64 << 30, 1 << 40} {
		folder, err := OpenFolder(t.TempDir(), FolderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := &folder.reclaimer
		r.running = true // nobody takes anything out
		sized(t, filepath.Join(folder.dir, "a"), waiting)
		if err := folder.FS().Remove("a"); err != nil {
			t.Fatal(err)
		}
		all, most := time.Duration(0), time.Duration(reclaimStepBytes*int64(time.Second)/reclaimRateMin)
		for r.bytes >= reclaimStepBytes {
			rest, _ := r.pause()
			r.gone(reclaimStepBytes)
			if all += rest; rest > most {
				t.Fatalf("%d bytes wait: a step may take %v, and %v at most", waiting, rest, most)
			}
		}
		if all > reclaimTime+time.Second {
			t.Errorf("%d bytes take %v, allowed are %v", waiting, all, reclaimTime)
		}
		_ = folder.Close()
		_ = r.next().close()
	}
}

// Removing a symbolic link removes nothing of what it leads to.
func TestRemoveAllFollowsNoLink(t *testing.T) {
	folder, file := reclaimed(t, "real/a")
	if err := os.Symlink("real", filepath.Join(folder.dir, "link")); err != nil {
		t.Skip(err)
	}
	if err := folder.FS().RemoveAll("link"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(folder.dir, "link")); !os.IsNotExist(err) {
		t.Errorf("the link is still there: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(folder.dir, "real/a")); err != nil {
		t.Error(err)
	}
	until(t, file, 3*reclaimStepBytes+1)
}
