package segment

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

func verify(t testing.TB, files core.FS) (VerifySummary, string) {
	t.Helper()
	var out bytes.Buffer
	sum, err := Verify(files, NewReport(&out, false))
	if err != nil {
		t.Fatal(err)
	}
	return sum, out.String()
}

func TestVerifySoundFolder(t *testing.T) {
	d := newDataFolder(t)
	sum, text := verify(t, d.files)
	want := VerifySummary{Line: "summary", Partitions: 1, Segments: 2, Indexes: 2, States: 2, JournalFiles: 2, Groups: 4, JournalFrames: 2, Frames: 5,
		Batches: 4, Records: 6, Bytes: sum.Bytes}
	if sum != want || !sum.Sound() {
		t.Fatalf("%+v\n%s", sum, text)
	}
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "sound: ") {
		t.Fatal(text)
	}
}

// TestVerifyReadsOnly: no operation that changes anything.
func TestVerifyReadsOnly(t *testing.T) {
	d := newDataFolder(t)
	d.files.failAt = 1
	verify(t, d.files)
	for _, name := range d.files.names() {
		if err := Dump(d.files, name, NewReport(&bytes.Buffer{}, false)); err != nil {
			t.Fatal(name, err)
		}
	}
	if d.files.steps != 0 {
		t.Fatalf("%d changing operations", d.files.steps)
	}
}

// TestVerifyFindsFlips flips bytes all over the folder, one at a time. What was
// durable is damage; the tail of the journal, which nothing calls synced, is torn.
func TestVerifyFindsFlips(t *testing.T) {
	d := newDataFolder(t)
	last := JournalPath(1, 0, 2)
	for _, name := range d.files.names() {
		b := d.files.get(t, name)
		for at := range b {
			if at%47 != 0 && at != len(b)-1 && !(at%core.DiskAlignment < 200 && at%3 == 0) {
				continue
			}
			b[at] ^= 0x20
			sum, text := verify(t, d.files)
			b[at] ^= 0x20
			inGroup := false // journal padding is no part of any group
			for _, j := range d.journals {
				for _, p := range j.places {
					inGroup = inGroup || name == JournalPath(1, 0, j.header.FileNumber) && int64(at) >= p.position && int64(at) < p.position+GroupHeaderBytes+int64(len(p.body))
				}
			}
			switch {
			case strings.HasSuffix(name, ".jnl") && at >= FileHeaderBytes && !inGroup:
				continue
			case strings.Contains(text, ErrPadding.Error()):
				continue // the flip is told, and nothing is lost
			case name == last && int64(at) >= d.journals[1].places[1].position:
				if sum.Torn == 0 {
					t.Fatalf("%s: flip at %d was not seen\n%s", name, at, text)
				}
			case strings.HasSuffix(name, IndexExtension):
				if sum.Warnings == 0 {
					t.Fatalf("%s: flip at %d was not seen\n%s", name, at, text)
				}
			case name == d.stem(1)+LogExtension && sum.Torn > 0:
				// The second segment was never synced: the journal holds what it loses.
			case sum.Damages == 0:
				t.Fatalf("%s: flip at %d was not seen\n%s", name, at, text)
			}
			if sum.Damages+sum.Torn+sum.Warnings > 0 && !strings.Contains(text, name) {
				t.Fatalf("%s: flip at %d is reported elsewhere\n%s", name, at, text)
			}
		}
	}
}

// TestVerifyFindsMistakes: whole files that are missing, doubled or foreign, and
// frames that do not follow.
func TestVerifyFindsMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(d *dataFolder)
		damages  bool
		says     string
		warnings bool
	}{
		"first segment lost": {func(d *dataFolder) { delete(d.files.live, d.stem(0)+LogExtension) }, false, "nothing says that the log starts after 0", true},
		"middle segment lost": {func(d *dataFolder) {
			third := newLogWriter(t, testHeader(6, 8, 7))
			third.write(5, func() { third.records(record(50, "k", "v")) })
			d.files.put(d.dir+"/"+SegmentName(8, 6)+LogExtension, third.bytes)
			delete(d.files.live, d.stem(1)+LogExtension)
			delete(d.files.live, JournalPath(1, 0, 1))
		}, true, "indexes [4, 6)", true},
		"last segment lost": {func(d *dataFolder) {
			delete(d.files.live, d.stem(1)+LogExtension)
			delete(d.files.live, JournalPath(1, 0, 1))
			delete(d.files.live, JournalPath(1, 0, 2))
			delete(d.files.live, d.stem(1)+IndexExtension)
			third := newLogWriter(t, testHeader(6, 4, 4))
			third.write(5, func() {})
			d.files.put(d.dir+"/"+SegmentName(4, 6)+LogExtension, third.bytes)
		}, true, "indexes [4, 6)", true},
		"journal file lost":     {func(d *dataFolder) { delete(d.files.live, JournalPath(1, 0, 1)) }, true, "is missing, and meta/layout lists it", false},
		"list of journals lost": {func(d *dataFolder) { delete(d.files.live, layoutPath) }, true, "meta/layout: is missing", false},
		"identity lost":         {func(d *dataFolder) { delete(d.files.live, identityPath) }, true, "meta/identity: is missing", false},
		"middle of the journal lost": {func(d *dataFolder) {
			j := newJournalWriter(d.journals[1].header, 14)
			j.header.FileNumber = 3
			j.header.Put(j.bytes)
			j.group(13, 1)
			d.files.put(JournalPath(1, 0, 3), j.bytes)
		}, true, "groups of sequence [12, 14) are missing", false},
		"segment under another name": {func(d *dataFolder) {
			d.files.put(d.dir+"/"+SegmentName(77, 9)+LogExtension, d.logs[0].bytes)
		}, true, "foreign file", false},
		"segment of another partition": {func(d *dataFolder) {
			h := testHeader(9, 400, 400)
			h.Partition++
			w := newLogWriter(t, h)
			d.files.put(d.dir+"/"+SegmentName(400, 9)+LogExtension, w.bytes)
		}, true, "foreign file", false},
		"segment of another broker": {func(d *dataFolder) {
			h := testHeader(9, 400, 400)
			h.Incarnation[0]++
			w := newLogWriter(t, h)
			d.files.put(d.dir+"/"+SegmentName(400, 9)+LogExtension, w.bytes)
		}, true, "foreign file: incarnation", false},
		"offsets that do not follow": {func(d *dataFolder) {
			w := newLogWriter(t, testHeader(9, 100, 7))
			w.gen = 2
			w.write(6, func() { w.records(record(1, "k", "v")) })
			d.files.put(d.dir+"/"+SegmentName(100, 9)+LogExtension, w.bytes)
		}, true, "index 7 is at offset 100", false},
		"frames missing inside a segment": {func(d *dataFolder) {
			w := newLogWriter(t, testHeader(6, 5, 6))
			w.term, w.gen = 2, 2
			w.write(5, func() { w.records(record(1, "k", "v")) })
			w.index += 2
			w.write(8, func() { w.records(record(1, "k", "v")) })
			d.files.put(d.dir+"/"+SegmentName(5, 6)+LogExtension, w.bytes)
		}, true, "indexes [7, 9)", false},
		"a state of another point": {func(d *dataFolder) {
			s := State{Index: 3, Segment: 5, Position: FileHeaderBytes, NextOffset: 3}
			d.files.put(d.stem(1)+StateExtension, AppendStateFile(nil, &d.logs[1].header, &s))
		}, true, "stands for index 3, next offset 3", false},
		"an index of another segment": {func(d *dataFolder) {
			x := NewIndex(4, 4)
			x.Add(&FrameHeader{Kind: FrameData, Index: 4, BaseOffset: 4, Span: 1, Bytes: 90}, FileHeaderBytes+128, 5)
			d.files.put(d.stem(1)+IndexExtension, AppendIndexFile(nil, &d.logs[1].header, x))
		}, false, "does not fit its segment", true},
		"an unfinished file": {func(d *dataFolder) { d.files.put(d.stem(0)+".log.new", []byte("x")) }, false, "never completed", true},
		"a stray file":       {func(d *dataFolder) { d.files.put(d.dir+"/notes.txt", []byte("x")) }, false, "is no file of a partition", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDataFolder(t)
			c.change(d)
			sum, text := verify(t, d.files)
			if (sum.Damages > 0) != c.damages || (sum.Warnings > 0) != c.warnings || !strings.Contains(text, c.says) {
				t.Fatalf("%+v\n%s", sum, text)
			}
		})
	}
}

// TestVerifyVoidGenerations: frames that a later generation replaced are no damage.
func TestVerifyVoidGenerations(t *testing.T) {
	d := newDataFolder(t)
	w := newLogWriter(t, testHeader(6, 5, 5)) // from index 5 on again, under a new generation
	w.term, w.gen = 3, 3
	w.write(4, func() { w.records(record(60, "x", "another six")); w.records(record(61, "y", "seven")) })
	d.files.put(d.dir+"/"+SegmentName(5, 6)+LogExtension, w.bytes)
	sum, text := verify(t, d.files)
	if !sum.Sound() || sum.Warnings != 0 || sum.Discarded != 2 {
		t.Fatalf("%+v\n%s", sum, text)
	}
}

// TestVerifyAfterCompaction verifies after each step of swapping a pass's outputs in.
func TestVerifyAfterCompaction(t *testing.T) {
	meta := newDataFolder(t).files.get(t, "meta/identity")
	folder := &Folder{Incarnation: testHeader(1, 0, 1).Incarnation, layout: 1, shards: 1, journals: [][]journalListed{nil}}
	for n, steps := 0, 1; n <= steps; n++ {
		l := newKeyedLog(t)
		for range 3 {
			l.segment(func(w *logWriter) {
				for i := range 5 {
					w.write(w.index, func() { l.frame(w, 0, 5, []proto.Record{record(int64(i), "k", "v"), record(int64(i), "l", "w")}) })
				}
			})
		}
		c := l.pass(1<<20, 1, 1000)
		if c.Err != nil || len(c.Outputs) != 3 {
			t.Fatal(c.Err)
		}
		steps = len(c.Outputs) * (2 + 3)
		l.swap(c, n)
		files := newFolder()
		files.put("meta/identity", meta)
		files.put(layoutPath, folder.metaFile(1, folder.layoutBody()))
		h := l.segments[0].Header
		for _, name := range l.files.names() {
			files.put(PartitionDir(h.Topic, h.Number)+strings.TrimPrefix(name, testDir), l.files.get(t, name))
		}
		sum, text := verify(t, files)
		if !sum.Sound() || n == steps && (sum.Warnings != 0 || sum.Records != 2) {
			t.Fatalf("after %d of %d steps: %+v\n%s", n, steps, sum, text)
		}
	}
}

func TestReportJSONLines(t *testing.T) {
	d := newDataFolder(t)
	d.files.get(t, d.stem(0)+LogExtension)[FileHeaderBytes+FrameHeaderBytes+FrameHeaderBytes+10] ^= 1
	var out bytes.Buffer
	sum, err := Verify(d.files, NewReport(&out, true))
	if err != nil || sum.Damages != 1 {
		t.Fatal(err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var damage DamageLine
	if err := json.Unmarshal([]byte(lines[0]), &damage); err != nil || damage.Line != "damage" || damage.File != d.stem(0)+LogExtension ||
		damage.IndexFirst != 1 || damage.IndexNext != 2 || *damage.OffsetFirst != 0 || *damage.OffsetNext != 2 || damage.Torn {
		t.Fatal(err, lines[0])
	}
	var summary VerifySummary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &summary); err != nil || summary != sum {
		t.Fatal(err, lines)
	}
}
