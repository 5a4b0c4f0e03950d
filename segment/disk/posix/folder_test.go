package posix_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

func openFolder(t *testing.T, dir string, options posix.FolderOptions) *posix.Folder {
	t.Helper()
	folder, err := posix.OpenFolder(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	return folder
}

// A symbolic link in the data folder leads nowhere outside it; one inside works. So
// it is with every way to resolve names.
func TestLinksDoNotLeadOut(t *testing.T) {
	t.Run("native", func(t *testing.T) { linksDoNotLeadOut(t, func(*posix.Folder) {}) })
	t.Run("rooted", func(t *testing.T) { linksDoNotLeadOut(t, (*posix.Folder).ResolveRooted) })
}

func linksDoNotLeadOut(t *testing.T, choose func(*posix.Folder)) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": outside, "file": filepath.Join(outside, "secret"), "up": "..", "in": "real"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	folder := openFolder(t, dir, posix.FolderOptions{})
	choose(folder)
	fs := folder.FS()
	for _, path := range []string{"out/secret", "file", "up/" + filepath.Base(outside) + "/secret"} {
		if file, err := fs.Open(path); err == nil {
			_ = file.Close()
			t.Errorf("Open(%q) left the data folder", path)
		}
	}
	if _, err := fs.Create("out/new"); err == nil {
		t.Error("a file was made outside")
	}
	if fs.Remove("out/secret") == nil || fs.RemoveAll("out/secret") == nil {
		t.Error("a file outside was removed")
	}
	if fs.Rename("out/secret", "stolen") == nil {
		t.Error("a file outside was moved")
	}
	if file, err := fs.Create("own"); err != nil {
		t.Error(err)
	} else if _ = file.Close(); fs.Rename("own", "out/brought") == nil {
		t.Error("a file was moved outside")
	}
	if fs.SyncDir("out") == nil || fs.SyncDir("up") == nil {
		t.Error("a folder outside was synced")
	}
	if _, err := fs.List("out"); err == nil {
		t.Error("a folder outside was listed")
	}
	if err := fs.MakeDir("real"); err != nil {
		t.Fatal(err)
	}
	if file, err := fs.Create("in/a"); err != nil {
		t.Errorf("a link inside the folder: %v", err)
	} else {
		_ = file.Close()
	}
	if err := errors.Join(fs.SyncDir("in"), fs.Rename("in/a", "in/b"), fs.Remove("real/b")); err != nil {
		t.Errorf("a link inside the folder: %v", err)
	}
	// What is removed is a link itself, never what it leads to.
	if err := errors.Join(fs.Remove("file"), fs.Remove("out")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
		t.Error(err)
	}
}

func TestMissingFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	if _, err := posix.OpenFolder(dir, posix.FolderOptions{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("error = %v", err)
	}
	openFolder(t, dir, posix.FolderOptions{Create: true})
	if _, err := posix.OpenFolder(filepath.Join(dir, "file"), posix.FolderOptions{}); err == nil {
		t.Error("no error")
	}
}

// Offline tools read a folder that a broker has locked; the lock file is no data.
func TestLockIsForBrokers(t *testing.T) {
	dir := t.TempDir()
	openFolder(t, dir, posix.FolderOptions{Lock: true})
	if _, err := posix.OpenFolder(dir, posix.FolderOptions{Lock: true}); !errors.Is(err, posix.ErrLocked) {
		t.Fatalf("second lock: %v", err)
	}
	entries, err := openFolder(t, dir, posix.FolderOptions{}).FS().List(".")
	if err != nil || len(entries) != 0 {
		t.Errorf("an empty data folder lists %v, %v", entries, err)
	}
}

const holderEnv = "PULSEMQ_TEST_LOCK_HOLDER"

// The lock ends with the process that holds it, however that ends; meanwhile the
// error names it.
func TestLockDiesWithItsProcess(t *testing.T) {
	if dir := os.Getenv(holderEnv); dir != "" {
		if _, err := posix.OpenFolder(dir, posix.FolderOptions{Lock: true}); err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString("locked\n")
		select {} // until it is killed
	}
	dir := t.TempDir()
	holder := exec.Command(os.Args[0], "-test.run=^TestLockDiesWithItsProcess$")
	holder.Env = append(os.Environ(), holderEnv+"="+dir)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 7)
	if n, err := out.Read(line); err != nil || string(line[:n]) != "locked\n" {
		t.Fatalf("the holder says %q, %v", line[:n], err)
	}
	_, err = posix.OpenFolder(dir, posix.FolderOptions{Lock: true})
	if !errors.Is(err, posix.ErrLocked) || !strings.Contains(err.Error(), "process "+strconv.Itoa(holder.Process.Pid)) {
		t.Errorf("error = %v, want one that names process %d", err, holder.Process.Pid)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	openFolder(t, dir, posix.FolderOptions{Lock: true})
}

// Errors name the operation and the path, and keep the error number.
func TestErrorsSayWhatWasTried(t *testing.T) {
	folder := openFolder(t, t.TempDir(), posix.FolderOptions{})
	op := &core.DiskOp{Kind: core.DiskOpen, Path: "topics/a", File: 1}
	folder.Execute(op, nil)
	if op.Err == nil || !errors.Is(op.Err, os.ErrNotExist) || !strings.Contains(op.Err.Error(), `open "topics/a"`) {
		t.Errorf("error = %v", op.Err)
	}
}
