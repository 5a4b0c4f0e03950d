package segment

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// A change of the list of journals that was cut between the copy and the file: the
// file counts while it is whole, and the copy is made the same before the list is
// used. Only so can the copy stand in for a file that is damaged later: it never
// speaks of another time.
func TestMetaCopyIsNeverOfAnotherTime(t *testing.T) {
	r := newRig(t, nil)
	r.serve(16)[0].append(1, 10)
	r.settle()
	before := r.readAll(layoutPath)
	fault := r.fs.Inject(&mem.Fault{Kind: core.DiskRename, Path: layoutPath + newSuffix})
	if _, err := r.folder.addJournal(0, JournalFileBytesMin); err == nil || fault.Hits() != 1 {
		t.Fatalf("the change was not cut: %v", err)
	}
	if bytes.Equal(r.readAll(layoutPath+copySuffix), before) || !bytes.Equal(r.readAll(layoutPath), before) {
		t.Fatal("the copy is not the newer of the two")
	}
	whole := r.branch(r.fs.Kill(0))
	if !bytes.Equal(whole.readAll(layoutPath), before) || !bytes.Equal(whole.readAll(layoutPath+copySuffix), before) {
		t.Error("the start did not make the copy the same as the file")
	}
	fs := r.fs.Kill(0)
	(&rig{t: t, fs: fs}).patch(layoutPath, 100, []byte("damage"))
	folder, err := OpenFolder(fs.Kill(0), r.options.folder)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(folder.journals[0]), int(r.options.folder.JournalBytes/r.options.folder.JournalFileBytes)+1; got != want {
		t.Errorf("%d journal files are listed from the copy, want %d", got, want)
	}
	hurt := r.branch(fs)
	if !bytes.Equal(hurt.readAll(layoutPath), hurt.readAll(layoutPath+copySuffix)) {
		t.Error("the damaged file was not written again")
	}
	if o := hurt.open(16); o.log.EndOffset() != 1 {
		t.Errorf("the log ends at %d", o.log.EndOffset())
	}
}

// With both of them damaged the start refuses and names the file: a folder whose
// journals nobody can list is no fresh one.
func TestMetaWithoutAWholeCopyRefuses(t *testing.T) {
	r := newRig(t, nil)
	r.serve(16)[0].append(1, 10)
	r.settle()
	for _, name := range []string{identityPath, layoutPath} {
		c := *r
		c.ops, c.fs = nil, r.fs.Kill(0)
		for _, each := range []string{name, name + copySuffix} {
			c.patch(each, 50, []byte("damage"))
		}
		if err := c.tryStart(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("started without %s: %v", name, err)
		}
	}
}

// On a full disk a start does without a copy that is missing or damaged: it says so,
// and the next one with room writes it. One that is whole and differs has to go first.
func TestMetaCopyNeedsNoRoom(t *testing.T) {
	r := newRig(t, nil)
	r.serve(16)[0].append(1, 10)
	r.settle()
	full := func() *rig {
		c := *r
		c.ops, c.fs = nil, r.fs.Kill(0)
		return &c
	}
	c := full()
	c.patch(layoutPath+copySuffix, 100, []byte("damage"))
	fault := c.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: layoutPath + copySuffix + "*", Count: -1, Err: core.ErrDiskFull})
	if err := c.tryStart(); err != nil || fault.Hits() == 0 {
		t.Errorf("the start does not do without the copy: %v", err)
	}
	cut := r.fs.Inject(&mem.Fault{Kind: core.DiskRename, Path: layoutPath + newSuffix})
	if _, err := r.folder.addJournal(0, JournalFileBytesMin); err == nil || cut.Hits() != 1 {
		t.Fatalf("the change was not cut: %v", err)
	}
	c = full()
	c.fs.Inject(&mem.Fault{Kind: core.DiskWrite, Path: layoutPath + copySuffix + "*", Count: -1, Err: core.ErrDiskFull})
	if err := c.tryStart(); err == nil {
		t.Error("a copy of another time stays beside the file")
	}
}
