package mem

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
)

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, s *FS, path string) core.File {
	t.Helper()
	file, err := s.Create(path)
	must(t, err)
	return file
}

func put(t testing.TB, file core.File, offset int64, value byte, length int) {
	t.Helper()
	_, err := file.WriteAt(bytes.Repeat([]byte{value}, length), offset)
	must(t, err)
}

// content reads a whole file; nil when there is none.
func content(t testing.TB, s *FS, path string) []byte {
	t.Helper()
	file, err := s.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	size, err := file.Size()
	must(t, err)
	got := make([]byte, size)
	if _, err := file.ReadAt(got, 0); err != io.EOF {
		must(t, err)
	}
	return got
}

func durable(t testing.TB, s *FS, path string, value byte, pages int) core.File {
	t.Helper()
	file := create(t, s, path)
	put(t, file, 0, value, pages*pageBytes)
	must(t, file.Sync())
	must(t, s.SyncDir("."))
	return file
}

func TestCrashDropsWhatIsNotSynced(t *testing.T) {
	s := New()
	file := durable(t, s, "a", 1, 2)
	put(t, file, pageBytes, 2, 2*pageBytes)
	c := s.Crash(1, CrashOptions{Data: FateDrop})
	if got := content(t, c, "a"); !bytes.Equal(got, bytes.Repeat([]byte{1}, 2*pageBytes)) {
		t.Errorf("%d bytes survived, the last %d", len(got), got[len(got)-1])
	}
	if got := content(t, s, "a"); len(got) != 3*pageBytes || got[len(got)-1] != 2 {
		t.Error("the crash changed the original")
	}
	c = s.Crash(1, CrashOptions{Data: FateKeep})
	if got := content(t, c, "a"); !bytes.Equal(got, content(t, s, "a")) {
		t.Error("FateKeep lost something")
	}
	must(t, file.Sync())
	for seed := range uint64(20) {
		if got := content(t, s.Crash(seed, CrashOptions{}), "a"); !bytes.Equal(got, content(t, s, "a")) {
			t.Fatalf("seed %d lost synced content", seed)
		}
	}
}

// Over the seeds every outcome of an unsynced overwrite is seen: nothing of it, all
// of it, and a tear inside a page, always in whole sectors.
func TestCrashTearsBySector(t *testing.T) {
	s := New()
	file := durable(t, s, "a", 1, 1)
	put(t, file, 0, 2, pageBytes)
	var old, new, torn int
	for seed := range uint64(200) {
		got := content(t, s.Crash(seed, CrashOptions{}), "a")
		twos := bytes.Count(got, []byte{2})
		switch {
		case twos == 0:
			old++
		case twos == pageBytes:
			new++
		default:
			torn++
		}
		for at := 0; at < pageBytes; at += 512 {
			if got[at] != got[at+511] {
				t.Fatalf("seed %d tore inside a sector", seed)
			}
		}
		got = content(t, s.Crash(seed, CrashOptions{SectorBytes: 4096}), "a")
		if got[0] != got[pageBytes-1] {
			t.Fatalf("seed %d tore a sector of 4096", seed)
		}
	}
	if old == 0 || new == 0 || torn == 0 {
		t.Errorf("old %d, new %d, torn %d: want some of each", old, new, torn)
	}
}

// A page written several times since the last sync may survive in any version.
func TestCrashMayKeepAnEarlierVersion(t *testing.T) {
	s := New()
	file := durable(t, s, "a", 1, 1)
	put(t, file, 0, 2, pageBytes)
	put(t, file, 0, 3, pageBytes)
	seen := map[byte]bool{}
	for seed := range uint64(100) {
		seen[content(t, s.Crash(seed, CrashOptions{SectorBytes: 4096}), "a")[0]] = true
	}
	if !seen[1] || !seen[2] || !seen[3] {
		t.Errorf("survivors %v", seen)
	}
}

// A file's size is lost or kept apart from its content.
func TestCrashLosesSize(t *testing.T) {
	s := New()
	file := durable(t, s, "a", 1, 1)
	put(t, file, pageBytes, 2, pageBytes)
	put(t, file, 2*pageBytes, 3, pageBytes)
	sizes := map[int]bool{}
	zeros := false
	for seed := range uint64(200) {
		got := content(t, s.Crash(seed, CrashOptions{}), "a")
		sizes[len(got)/pageBytes] = true
		zeros = zeros || (len(got) == 3*pageBytes && got[len(got)-1] == 0)
	}
	if !sizes[1] || !sizes[2] || !sizes[3] || !zeros {
		t.Errorf("sizes in pages %v, a size without its content %v", sizes, zeros)
	}
	must(t, file.Truncate(0))
	if got := content(t, s.Crash(1, CrashOptions{Data: FateDrop}), "a"); len(got) != pageBytes || got[0] != 1 {
		t.Errorf("an unsynced truncation lost %d durable bytes", pageBytes-len(got))
	}
	if got := content(t, s.Crash(1, CrashOptions{Data: FateKeep}), "a"); len(got) != 0 {
		t.Errorf("a kept truncation left %d bytes", len(got))
	}
}

// Creates, renames and unlinks need SyncDir; a file's own sync does not save its name.
func TestCrashDropsEntries(t *testing.T) {
	s := New()
	durable(t, s, "old", 1, 1)
	durable(t, s, "gone", 2, 1)
	file := create(t, s, "new")
	put(t, file, 0, 3, pageBytes)
	must(t, file.Sync())
	must(t, s.Rename("old", "renamed"))
	must(t, s.Remove("gone"))
	must(t, s.MakeDir("x/y"))

	lost := s.Crash(1, CrashOptions{Entries: FateDrop})
	if content(t, lost, "new") != nil || content(t, lost, "renamed") != nil {
		t.Error("a name without SyncDir survived FateDrop")
	}
	if content(t, lost, "old") == nil || content(t, lost, "gone") == nil {
		t.Error("an unsynced rename or unlink took a durable name")
	}
	kept := s.Crash(1, CrashOptions{Entries: FateKeep})
	if content(t, kept, "new") == nil || content(t, kept, "renamed") == nil || content(t, kept, "old") != nil || content(t, kept, "gone") != nil {
		t.Error("FateKeep lost a change")
	}
	for seed := range uint64(50) {
		c := s.Crash(seed, CrashOptions{})
		if (content(t, c, "old") == nil) == (content(t, c, "renamed") == nil) {
			t.Fatalf("seed %d: a rename left both names or none", seed)
		}
	}
	must(t, s.SyncDir("."))
	c := s.Crash(1, CrashOptions{Entries: FateDrop})
	if content(t, c, "new") == nil || content(t, c, "renamed") == nil || content(t, c, "gone") != nil {
		t.Error("SyncDir did not make the entries durable")
	}
	if entries, err := c.List("x"); err != nil || len(entries) != 0 {
		t.Errorf("x/y survived without SyncDir of x: %v, %v", entries, err)
	}
}

// A rename over a file may be lost; then the replaced file is there, whole.
func TestCrashBringsBackTheReplacedFile(t *testing.T) {
	s := New()
	durable(t, s, "a", 1, 1)
	durable(t, s, "b", 2, 1)
	must(t, s.Rename("b", "a"))
	seen := map[byte]bool{}
	for seed := range uint64(50) {
		got := content(t, s.Crash(seed, CrashOptions{}), "a")
		if len(got) != pageBytes {
			t.Fatalf("seed %d: %d bytes", seed, len(got))
		}
		seen[got[0]] = true
	}
	if !seen[1] || !seen[2] {
		t.Errorf("survivors %v", seen)
	}
}

// After a failed sync the content is not saved by syncing again, only by writing again.
func TestFailedSyncForsakesPages(t *testing.T) {
	s := New()
	file := durable(t, s, "a", 1, 1)
	put(t, file, 0, 2, pageBytes)
	s.Inject(&Fault{Kind: core.DiskSync})
	if file.Sync() == nil {
		t.Fatal("the sync did not fail")
	}
	must(t, file.Sync())
	if got := content(t, s, "a"); got[0] != 2 {
		t.Error("a failed sync is visible to readers")
	}
	if got := content(t, s.Crash(1, CrashOptions{Data: FateDrop}), "a"); got[0] != 1 {
		t.Error("a second sync saved what the failed one dropped")
	}
	put(t, file, 0, 3, pageBytes)
	must(t, file.Sync())
	if got := content(t, s.Crash(1, CrashOptions{Data: FateDrop}), "a"); got[0] != 3 {
		t.Error("what was written again was not saved")
	}
}

func TestLyingSync(t *testing.T) {
	s := New()
	file := durable(t, s, "a", 1, 1)
	put(t, file, 0, 2, pageBytes)
	must(t, s.Rename("a", "b"))
	lie := s.Inject(&Fault{Path: "*", Action: FaultLie, Count: -1})
	must(t, file.Sync())
	must(t, s.SyncDir("."))
	if got := content(t, s.Crash(1, CrashOptions{Data: FateDrop, Entries: FateDrop}), "a"); lie.Hits() != 2 || got[0] != 1 {
		t.Errorf("%d lies; a file of %d bytes survived", lie.Hits(), len(got))
	}
}

func TestKillKeepsTheCaches(t *testing.T) {
	s := New()
	file := create(t, s, "a")
	put(t, file, 0, 1, pageBytes)
	k := s.Kill(1)
	if got := content(t, k, "a"); !bytes.Equal(got, content(t, s, "a")) {
		t.Error("kill lost what was written")
	}
	if content(t, k.Crash(1, CrashOptions{Data: FateDrop, Entries: FateDrop}), "a") != nil {
		t.Error("kill made durable what was not")
	}
}

// An operation in flight may have happened, or not; of a chain a beginning.
func TestCrashWithOperationsInFlight(t *testing.T) {
	s := New()
	d := s.Driver(DriverOptions{})
	file := durable(t, s, "a", 1, 2)
	must(t, file.Close())
	o := &owner{}
	open := &core.DiskOp{Kind: core.DiskOpen, Path: "a", Owner: o}
	finish(d, open)
	sync := &core.DiskOp{Kind: core.DiskSync, File: open.File, Owner: o}
	second := &core.DiskOp{Kind: core.DiskWrite, File: open.File, Offset: pageBytes, Buf: aligned(3, pageBytes), Owner: o, Next: sync}
	first := &core.DiskOp{Kind: core.DiskWrite, File: open.File, Buf: aligned(2, pageBytes), Owner: o, Next: second}
	if !d.Submit(first) {
		t.Fatal("no room")
	}
	seen := map[string]bool{}
	for seed := range uint64(200) {
		for _, c := range []*FS{s.Crash(seed, CrashOptions{SectorBytes: 4096, Data: FateKeep}), s.Kill(seed)} {
			got := content(t, c, "a")
			seen[fmt.Sprint(got[0], got[pageBytes])] = true
		}
	}
	if len(seen) != 3 || !seen["1 1"] || !seen["2 1"] || !seen["2 3"] {
		t.Errorf("outcomes %v, want none, the first, or both writes", seen)
	}
	// Data drops what the chain did not sync; a chain that came to its sync is safe.
	seen = map[string]bool{}
	for seed := range uint64(200) {
		got := content(t, s.Crash(seed, CrashOptions{Data: FateDrop}), "a")
		seen[fmt.Sprint(got[0], got[pageBytes])] = true
	}
	if len(seen) != 2 || !seen["1 1"] || !seen["2 3"] {
		t.Errorf("outcomes %v, want nothing or all", seen)
	}
	if got := content(t, s, "a"); got[0] != 1 || first.N != 0 {
		t.Error("a crash let operations of the original happen")
	}
	finish(d, nil)
	if sync.Err != nil {
		t.Error(sync.Err)
	}
}

// The same seed gives the same survivor.
func TestCrashIsDeterministic(t *testing.T) {
	s := New()
	for i := range 10 {
		file := create(t, s, fmt.Sprint("f", i))
		put(t, file, 0, byte(i), 5*pageBytes)
	}
	must(t, s.SyncDir("."))
	for i := range 10 {
		must(t, s.Rename(fmt.Sprint("f", i), fmt.Sprint("g", i)))
	}
	dump := func(c *FS) string {
		entries, err := c.List(".")
		must(t, err)
		text := ""
		for _, e := range entries {
			text += fmt.Sprintf("%s %x\n", e.Name, content(t, c, e.Name))
		}
		return text
	}
	for seed := range uint64(10) {
		first, again := dump(s.Crash(seed, CrashOptions{})), dump(s.Crash(seed, CrashOptions{}))
		if first != again {
			t.Fatalf("seed %d gave two survivors", seed)
		}
	}
	if dump(s.Crash(1, CrashOptions{})) == dump(s.Crash(2, CrashOptions{})) {
		t.Error("two seeds gave one survivor")
	}
}

// Whatever is done, a crash keeps every synced page and gives of every other one a
// version that was written since. What survived is durable.
func TestCrashModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		file, err := s.Create("a")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SyncDir("."); err != nil {
			t.Fatal(err)
		}
		const pages = 4
		allowed := make([]map[byte]bool, pages) // by page: values that may survive
		now := make([]byte, pages)
		for i := range allowed {
			allowed[i] = map[byte]bool{0: true}
		}
		stamp := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				at := rapid.IntRange(0, pages-1).Draw(t, "page")
				if len(allowed[at]) == versionsMax {
					t.Skip() // older versions are forgotten
				}
				stamp++
				now[at] = stamp
				allowed[at][stamp] = true
				if _, err := file.WriteAt(bytes.Repeat([]byte{stamp}, pageBytes), int64(at*pageBytes)); err != nil {
					t.Fatal(err)
				}
			},
			"sync": func(t *rapid.T) {
				if err := file.Sync(); err != nil {
					t.Fatal(err)
				}
				for i := range allowed {
					allowed[i] = map[byte]bool{now[i]: true}
				}
			},
			"": func(t *rapid.T) {
				c := s.Crash(rapid.Uint64().Draw(t, "seed"), CrashOptions{})
				survivor, err := c.Open("a")
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, pages*pageBytes)
				n, _ := survivor.ReadAt(got, 0)
				for i := range pages {
					for at := i * pageBytes; at < (i+1)*pageBytes; at += 512 {
						if at >= n && !allowed[i][0] {
							t.Fatalf("synced page %d is cut off", i)
						}
						if at < n && !allowed[i][got[at]] && got[at] != 0 {
							t.Fatalf("page %d holds %d, allowed are %v", i, got[at], allowed[i])
						}
						if at < n && got[at] == 0 && !allowed[i][0] {
							t.Fatalf("synced page %d became zeros", i)
						}
					}
				}
				again := c.Crash(1, CrashOptions{Data: FateDrop, Entries: FateDrop})
				twice, err := again.Open("a")
				if err != nil {
					t.Fatal(err)
				}
				more := make([]byte, pages*pageBytes)
				if m, _ := twice.ReadAt(more, 0); m != n || !bytes.Equal(more[:m], got[:n]) {
					t.Fatal("what survived a crash is not durable")
				}
			},
		})
	})
}
