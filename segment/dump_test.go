package segment

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// dumpText dumps a file as text.
func dumpText(t testing.TB, files *folder, name string) (string, *Report) {
	t.Helper()
	var out bytes.Buffer
	r := NewReport(&out, false)
	if err := Dump(files, name, r); err != nil {
		t.Fatal(err)
	}
	return out.String(), r
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in\n%s", p, text)
		}
	}
}

func TestDumpEachKindOfFile(t *testing.T) {
	d := newDataFolder(t)
	text, r := dumpText(t, d.files, d.stem(0)+LogExtension)
	contains(t, text, "segment, 12288 bytes, incarnation 010203", "partition 3 (id 17), segment 4, base offset 0, base index 1",
		"4096  write-mark partition id 17 index 0", "data       offsets [0, 2) partition id 17 index 1 term 1 generation 1",
		"batch      offsets [0, 2) epoch 1, 2 records, none", "create time 10 to 12", "noop", "2 records, lz4", "producer 900 epoch 2 sequence 40",
		"appended 2001-09-09T01:46:41Z", "durable up to index 2")
	if r.Damages+r.Torn+r.Warnings != 0 {
		t.Fatal(text)
	}
	text, _ = dumpText(t, d.files, d.stem(0)+IndexExtension)
	contains(t, text, "4160  entry      offset 0 index 1 term 1, max timestamp before: none", "1 entries", "next offset 4, last index 3", "max timestamp 30 in the frame at offset 2")
	text, _ = dumpText(t, d.files, d.stem(1)+StateExtension)
	contains(t, text, "at index 5 term 2 generation 2, segment 5", "next offset 6, owner's part 5 bytes", "epoch 2 starts at index 4, offset 4")
	text, _ = dumpText(t, d.files, JournalPath(1, 0, 1))
	contains(t, text, "journal", "layout 1, shard 0, file 1, generation 1", "group      sequence 8, synced up to 7", "generation 2 begins at index 4", "offsets [4, 5)")
	text, _ = dumpText(t, d.files, JournalPath(1, 0, 2))
	contains(t, text, "checkpoint", "1 entries")
	text, r = dumpText(t, d.files, "meta/identity")
	contains(t, text, "meta/identity: meta")
	if r.Damages != 0 {
		t.Fatal(text)
	}
}

func TestDumpReportsDamageInPlace(t *testing.T) {
	d := newDataFolder(t)
	name := d.stem(1) + LogExtension
	good, _ := dumpText(t, d.files, name)
	b := d.files.get(t, name)
	b[d.logs[1].places[1].position+FrameHeaderBytes+20] ^= 1
	text, r := dumpText(t, d.files, name)
	contains(t, text, "DAMAGE "+name+" positions [4160, 8192): frame: payload checksum mismatch; partition id 17; indexes [4, 5); offsets [4, 5)", "offsets [5, 6)")
	if r.Damages != 1 || strings.Count(text, "\n") != strings.Count(good, "\n")-1 {
		t.Fatal(text)
	}
}

// TestDumpWithoutHeader: the frames are still shown when the first block is lost.
func TestDumpWithoutHeader(t *testing.T) {
	d := newDataFolder(t)
	name := d.stem(0) + LogExtension
	clear(d.files.get(t, name)[:FileHeaderBytes])
	text, r := dumpText(t, d.files, name)
	contains(t, text, "file header: bad magic", "partition id 17 and the salt are taken from the first write mark", "offsets [0, 2)", "offsets [2, 4)")
	if r.Damages != 1 || r.Warnings != 1 {
		t.Fatal(text)
	}
	clear(d.files.get(t, name)[:2*FileHeaderBytes])
	if text, r = dumpText(t, d.files, name); r.Damages != 2 {
		t.Fatal(text)
	}
}

// TestDumpTornTail: what no mark calls durable is a torn tail, not damage.
func TestDumpTornTail(t *testing.T) {
	d := newDataFolder(t)
	name := d.stem(1) + LogExtension
	d.files.get(t, name)[d.logs[1].places[3].position+9] ^= 1
	text, r := dumpText(t, d.files, name)
	contains(t, text, "TORN TAIL "+name)
	if r.Torn != 1 || r.Damages != 0 {
		t.Fatal(text)
	}
	name = JournalPath(1, 0, 2)
	d.files.get(t, name)[d.journals[1].places[1].position+70] ^= 1
	text, r = dumpText(t, d.files, name)
	contains(t, text, "TORN TAIL "+name, "the group of sequence 11 is not whole")
	if r.Torn != 1 || r.Damages != 0 {
		t.Fatal(text)
	}
}

func TestDumpJSONLines(t *testing.T) {
	d := newDataFolder(t)
	kinds := map[string]int{}
	for _, name := range d.files.names() {
		var out bytes.Buffer
		if err := Dump(d.files, name, NewReport(&out, true)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			var l struct{ Line, File string }
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.File != name {
				t.Fatal(err, line)
			}
			kinds[l.Line]++
		}
	}
	for kind, want := range map[string]int{"file": 10, "frame": 13, "group": 4, "entry": 2, "index": 2, "state": 2} {
		if kinds[kind] != want {
			t.Errorf("%d lines of %s, want %d", kinds[kind], kind, want)
		}
	}
}

// TestDumpAnyBytes: every flip and every truncation is survived.
func TestDumpAnyBytes(t *testing.T) {
	d := newDataFolder(t)
	for _, name := range d.files.names() {
		good := bytes.Clone(d.files.get(t, name))
		for at := 0; at < len(good); at += 13 {
			d.files.put(name, good[:at])
			dumpText(t, d.files, name)
			b := bytes.Clone(good)
			b[at] ^= 0xff
			d.files.put(name, b)
			dumpText(t, d.files, name)
		}
		d.files.put(name, good)
	}
}
