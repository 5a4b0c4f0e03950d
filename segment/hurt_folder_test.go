package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// Recovery of any byte string: a folder as the store writes it, one file of it hurt,
// and a start. Whatever the bytes are, the start ends, uses a bounded amount of memory,
// harms no other partition, serves only what was stored, and never gives an offset a
// second time that the rest of the folder knows to be durable.

// hurtBytesMax bounds what a start and reading everything may allocate, of a folder of
// a few MiB.
const hurtBytesMax = 256 << 20

// hurtFolder is a folder as it was left, and what stands in it.
type hurtFolder struct {
	name  string
	fs    *mem.FS
	files []string
	ids   []core.PartitionID
	logs  map[core.PartitionID]*hurtLog
	clean bool
}

// hurtLog is what a partition holds as long as nothing is hurt.
type hurtLog struct {
	id         core.PartitionID
	start, end core.Offset
	index      core.Index
	batches    map[core.Offset][]byte
	order      []rigBatch
	places     []hurtPlace
	points     []hurtPoint
}

// hurtPlace is a frame of the log, or a write mark, and where it stands.
type hurtPlace struct {
	file      string
	from, to  int64
	header    FrameHeader
	inJournal bool
}

// hurtPoint is knowledge that everything up to an index is durable.
type hurtPoint struct {
	file    string // that says so
	from    int64  // where; -1: the whole file
	to      int64
	index   core.Index
	next    core.Offset
	journal bool
}

func hurtOptions(o *rigOptions) {
	o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 192 << 10}
	o.store.CacheBytes = 256 << 10
	o.store.StateBytes = 60 << 10
	o.store.IdleNanos = 3e9
	o.store.FreeBytesLow, o.store.FreeBytesHigh = 1, 2
}

// newHurtFolder lets a store work for a while and leaves it in the way that is asked for.
func newHurtFolder(t rigT, ending string) *hurtFolder {
	t.Helper()
	r := newRig(t, hurtOptions)
	ids := []core.PartitionID{16, 17, 18}
	owners := r.serve(ids...)
	random := rand.New(rand.NewPCG(uint64(len(ending)), 5))
	for round := range 14 {
		for i, o := range owners {
			for range 1 + random.IntN(6) {
				o.append(1+random.IntN(3), random.IntN(1500))
			}
			if random.IntN(3) == 0 {
				o.append(1, 66<<10)
			}
			if round == 11 && i < 2 { // the first segments go
				if err := r.store.Trim(o.log, o.history[len(o.history)*2/3].next); err != nil {
					t.Fatal(err)
				}
			}
		}
		if ending == "reopened" && round == 7 {
			before := map[core.PartitionID][]rigBatch{}
			r.settle()
			for _, id := range ids {
				before[id] = r.owners[id].history
			}
			r.crash(3, mem.CrashOptions{})
			for i, id := range ids {
				owners[i] = r.open(id)
				owners[i].history, owners[i].batches = before[id], len(before[id])
			}
			r.store.Start()
		}
		r.settle()
		if round%4 == 3 {
			r.tick(4e9) // tails go to their segments
		} else {
			r.tick(1e6)
		}
	}
	h := &hurtFolder{name: ending, ids: ids, logs: map[core.PartitionID]*hurtLog{}}
	switch ending {
	case "stopped":
		r.stop()
		h.fs, h.clean = r.fs.Kill(0), true
	case "cut":
		for _, o := range owners {
			o.append(2, 300)
			o.append(1, 70<<10)
		}
		r.store.Flush(r.clock.mono)
		h.fs = r.fs.Crash(11, mem.CrashOptions{})
	default:
		h.fs = r.fs.Kill(5)
	}
	h.files = filesBelow(h.fs, ".")
	h.survey(t, r)
	return h
}

// survey notes what a start finds when nothing is hurt, and where it stands.
func (h *hurtFolder) survey(t rigT, before *rig) {
	t.Helper()
	r := newRigOn(t, h.fs.Kill(1), hurtOptions)
	frames := r.store.replay.partitions
	for _, id := range h.ids {
		l := &hurtLog{id: id, batches: map[core.Offset][]byte{}}
		h.logs[id] = l
		if found := frames[id]; found != nil {
			for _, f := range found.frames {
				l.places = append(l.places, hurtPlace{
					file: JournalPath(r.folder.layout, 0, f.file), from: f.position, to: f.position + FrameHeaderBytes + int64(f.bytes), inJournal: true,
					header: FrameHeader{Kind: f.kind, Index: f.index, Generation: f.generation, BaseOffset: f.base, Span: f.span, Bytes: f.bytes},
				})
			}
			if c := found.checkpoint; c.Sealed.Index > 0 {
				l.points = append(l.points, hurtPoint{index: c.Sealed.Index, next: c.Sealed.NextOffset, journal: true})
			}
		}
		o := r.open(id)
		l.start, l.end, l.index = o.log.StartOffset(), o.log.EndOffset(), o.log.LastIndex()
		for _, b := range before.owners[id].history {
			if b.next <= l.end {
				l.batches[b.base] = b.bytes
				l.order = append(l.order, b)
			}
		}
		dir := rigIdentity(id).dir()
		for _, name := range h.files {
			if path.Dir(name) != dir {
				continue
			}
			b := before.readAllOf(h.fs, name)
			switch path.Ext(name) {
			case LogExtension:
				var s Scanner
				if s.Open(bytes.NewReader(b), int64(len(b)), nil) != nil {
					continue
				}
				for s.Next() {
					p := hurtPlace{file: name, from: s.Position, to: s.Position + FrameHeaderBytes + int64(s.Frame.Bytes), header: s.Frame}
					l.places = append(l.places, p)
					if s.Frame.Kind == FrameWriteMark && s.Frame.Index > 0 {
						l.points = append(l.points, hurtPoint{file: name, from: p.from, to: p.to, index: s.Frame.Index, next: s.Frame.BaseOffset})
					}
				}
			case StateExtension:
				if _, s, err := ParseStateFile(b); err == nil {
					l.points = append(l.points, hurtPoint{file: name, from: -1, index: s.Index, next: s.NextOffset})
				}
			}
		}
		if len(l.order) == 0 || l.order[len(l.order)-1].next != l.end {
			t.Fatalf("%s: partition %d ends at %d with %d batches", h.name, id, l.end, len(l.order))
		}
	}
}

func (r *rig) readAllOf(fs *mem.FS, name string) []byte {
	c := rig{t: r.t, fs: fs}
	return c.readAll(name)
}

// changed is where a file's bytes differ: [first, last).
func changed(before, after []byte) (first, last int64) {
	n := min(len(before), len(after))
	first = int64(n)
	for i := range n {
		if before[i] != after[i] {
			first = int64(i)
			break
		}
	}
	if len(before) != len(after) {
		return first, int64(max(len(before), len(after)))
	}
	for i := n; i > 0; i-- {
		if before[i-1] != after[i-1] {
			return first, int64(i)
		}
	}
	return first, first
}

// wound is what a hurt left of the folder's knowledge.
type wound struct {
	file        string
	first, last int64
	journal     bool
	meta        bool
	sealed      bool // checksums were made good: any content may be told
}

// spares says whether bytes of a file stand as they were.
func (w *wound) spares(file string, from, to int64) bool {
	if file != w.file || w.first == w.last {
		return true
	}
	return from >= 0 && (to <= w.first || from >= w.last)
}

// known is the offset that the log must at least end at: what the rest of the folder
// says to be durable, and the frames that follow without a gap.
func (l *hurtLog) known(w *wound) (core.Index, core.Offset) {
	index, next := core.Index(0), core.Offset(0)
	for _, p := range l.points {
		if p.journal && w.journal || !p.journal && !w.spares(p.file, p.from, p.to) {
			continue
		}
		if p.index > index {
			index, next = p.index, p.next
		}
	}
	for found := true; found && index < l.index; {
		found = false
		for i := range l.places {
			p := &l.places[i]
			if frameIndexed(p.header.Kind) && p.header.Index == index+1 && (!p.inJournal || !w.journal) && w.spares(p.file, p.from, p.to) && l.reached(w, p) {
				index, next, found = p.header.Index, p.header.Next(), true
				break
			}
		}
	}
	return index, next
}

// reached says whether a scan of a segment comes to a frame in spite of the wound: it
// stands before it, or behind a mark that stands behind it.
func (l *hurtLog) reached(w *wound, p *hurtPlace) bool {
	if p.file != w.file || p.inJournal || w.first == w.last || p.to <= w.first {
		return true
	}
	for i := range l.places {
		m := &l.places[i]
		if m.file == p.file && m.header.Kind == FrameWriteMark && m.from >= w.last && m.from < p.from {
			return true
		}
	}
	return false
}

// hurtOwner is a partition that believes nothing.
type hurtOwner struct{ restored []byte }

func (o *hurtOwner) Advanced(*Log)                       {}
func (o *hurtOwner) RolledBack(*Log, core.Offset, error) {}
func (o *hurtOwner) Snapshot(b []byte) []byte            { return binary.BigEndian.AppendUint64(b, 7) }
func (o *hurtOwner) Restore(state []byte) error          { o.restored = state; return nil }

// Excerpt takes the whole frame along.
func (o *hurtOwner) Excerpt(b []byte, _ *FrameHeader, payload []byte) []byte {
	return append(b, payload...)
}

// Replay asserts what a partition of a shard does.
func (o *hurtOwner) Replay(h *FrameHeader, payload []byte) {
	if h.Kind != FrameData {
		return
	}
	core.Assert(eachBatch(payload, func(int, proto.Batch) error { return nil }) == nil, "the log replays whole batches")
}

// start opens a hurt folder; nil logs are those that refuse.
func (h *hurtFolder) start(t rigT, fs *mem.FS, shards int) (r *rig, logs map[core.PartitionID]*Log, err error) {
	o := rigOptions{folder: smallFolder(shards), log: LogOptions{Durability: core.DurabilitySync}, slabs: core.HeapSlabs{}}
	hurtOptions(&o)
	r = &rig{t: t, fs: fs, options: o, clock: &rigClock{wall: 1_700_000_100e9, mono: 1e9}}
	if err := r.tryStart(); err != nil {
		return nil, nil, err
	}
	logs = map[core.PartitionID]*Log{}
	for _, id := range h.ids {
		if core.ShardOf(id, shards) != r.options.shard {
			continue
		}
		l, e := r.store.OpenLog(rigIdentity(id), r.options.log, &hurtOwner{})
		logs[id] = l
		err = errors.Join(err, e)
	}
	known := func(id core.PartitionID) bool { return h.logs[id] != nil }
	if err := errors.Join(r.store.Hold(known), r.store.Quarantine(known)); err != nil {
		return nil, nil, err
	}
	r.store.Start()
	return r, logs, err
}

// try hurts the folder and starts it.
func (h *hurtFolder) try(t rigT, x *hurt, shards int) (outcome string) {
	t.Helper()
	fs := h.fs.Kill(1)
	name, before, after := x.apply(t, fs, h.files)
	w := &wound{file: name, journal: strings.HasSuffix(name, ".jnl"), meta: strings.HasPrefix(name, MetaDir), sealed: x.action%hurtActions == hurtSealed}
	w.first, w.last = changed(before, after)
	about := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s folder, %s hurt by action %d at [%d, %d): %s", h.name, name, x.action%hurtActions, w.first, w.last, fmt.Sprintf(format, args...))
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	allocated := m.TotalAlloc
	r, logs, err := h.start(t, fs, shards)
	if r == nil {
		if !w.journal && !w.meta {
			about("the whole shard refuses to start: %v", err)
		}
		return "refused"
	}
	outcome = "whole"
	for _, id := range h.ids {
		l, want := logs[id], h.logs[id]
		own := path.Dir(name) == rigIdentity(id).dir()
		if l == nil {
			if core.ShardOf(id, shards) != r.options.shard {
				continue
			}
			// Where retention kept one state only, none is left to start from.
			base := path.Ext(name) == StateExtension && errors.Is(err, ErrStateMissing)
			if !w.journal && !(own && (path.Ext(name) == LogExtension || base || w.sealed)) {
				about("partition %d refuses: %v", id, err)
			}
			outcome = "partition refused"
			continue
		}
		if w.sealed && (own || w.journal) {
			h.readAny(r, l)
			continue
		}
		if o := want.check(r, l, w, want.end, about); o != "" {
			outcome = o
		}
	}
	// What is appended now is there after the next start, too.
	type appended struct {
		base core.Offset
		sum  uint32
	}
	fresh := map[core.PartitionID]appended{}
	for id, l := range logs {
		if l == nil || l.EndOffset() > 1<<40 || l.LastIndex() > 1<<40 {
			continue
		}
		o := &rigOwner{rig: r, id: id, log: l}
		at := l.EndOffset()
		if err := o.tryAppend(2, 100, core.DurabilitySync); err != nil {
			about("partition %d takes no append: %v", id, err)
		}
		fresh[id] = appended{at, crcOf(o.history[0].bytes)}
	}
	r.settle()
	if err := r.store.Err(); err != nil {
		about("the store failed: %v", err)
	}
	r.tick(4e9)
	for id, a := range fresh {
		if d := logs[id].DurableOffset(); d < a.base+2 {
			about("partition %d: an append at %d is not durable, %d is", id, a.base, d)
		}
	}
	r, again, err := h.start(t, r.fs.Kill(3), shards)
	if r == nil {
		about("the second start refuses: %v", err)
	}
	for id, a := range fresh {
		l := again[id]
		if w.sealed && (w.journal || path.Dir(name) == rigIdentity(id).dir()) {
			continue // what was told may have been that other frames come next
		}
		if l == nil {
			about("partition %d refuses at the second start: %v", id, err)
		}
		read := &rigOwner{rig: r, id: id, log: l}
		b, err := read.read(a.base, a.base+2, 1<<20)
		if err != nil || crcOf(b) != a.sum {
			about("partition %d: what was appended at %d after the start reads as %d bytes, %v", id, a.base, len(b), err)
		}
		if !w.sealed {
			h.logs[id].check(r, l, w, a.base, about)
		}
	}
	runtime.ReadMemStats(&m)
	if n := m.TotalAlloc - allocated; n > hurtBytesMax {
		about("two starts and two reads of everything allocated %d MiB", n>>20)
	}
	return outcome
}

// readAny reads everything, whatever it is.
func (h *hurtFolder) readAny(r *rig, l *Log) {
	at := l.StartOffset()
	for range 2000 {
		if at >= l.EndOffset() {
			return
		}
		x := &rigRead{Read: Read{Log: l, Offset: at, Limit: l.EndOffset(), BytesMax: 64 << 10}}
		x.Owner = x
		if !r.store.Read(&x.Read) {
			r.until("the read", func() bool { return x.done })
		}
		var bad *CorruptError
		switch {
		case errors.As(x.Err, &bad) && bad.Next > at:
			at = bad.Next
		case x.Err != nil || x.Next <= at:
			at++
		default:
			at = x.Next
		}
		x.Release()
	}
}

// check reads a log from its start to its end and compares.
// Nothing is compared from an offset on where the log goes on with other records.
func (want *hurtLog) check(r *rig, l *Log, w *wound, end core.Offset, about func(string, ...any)) (outcome string) {
	index, known := want.known(w)
	if l.EndOffset() < known {
		about("partition %d ends at %d, but up to %d (index %d) was known", want.id, l.EndOffset(), known, index)
	}
	served, told := map[core.Offset]bool{}, map[core.Offset]bool{}
	for at := l.StartOffset(); at < min(l.EndOffset(), end); {
		x := &rigRead{Read: Read{Log: l, Offset: at, Limit: l.EndOffset(), BytesMax: 64 << 10}}
		x.Owner = x
		if !r.store.Read(&x.Read) {
			r.until("the read", func() bool { return x.done })
		}
		var bad *CorruptError
		if errors.As(x.Err, &bad) {
			if bad.Start > at || bad.Next <= at {
				about("partition %d: a read at %d ends with %v", want.id, at, bad)
			}
			for _, b := range want.order {
				if b.base < bad.Next && b.next > bad.Start { // the log may start, and the damage end, within a batch
					told[b.base] = true
				}
			}
			at, outcome = bad.Next, "damaged"
			continue
		}
		if x.Err != nil {
			about("partition %d: a read at %d of [%d, %d): %v", want.id, at, l.StartOffset(), l.EndOffset(), x.Err)
		}
		if x.Next <= at {
			about("partition %d: a read at %d makes no progress", want.id, at)
		}
		for _, run := range x.Slices {
			for len(run) > 0 {
				batch, rest, err := proto.NextBatch(run)
				if err != nil {
					about("partition %d: a read at %d gives no batches: %v", want.id, at, err)
				}
				base := core.Offset(batch.BaseOffset())
				if base < end && !bytes.Equal(batch, want.batches[base]) {
					about("partition %d: wrong bytes at offset %d", want.id, base)
				}
				served[base] = true
				run = rest
			}
		}
		at = x.Next
		x.Release()
	}
	for _, b := range want.order {
		if b.base >= l.StartOffset() && b.next <= min(l.EndOffset(), end) && !served[b.base] && !told[b.base] {
			about("partition %d: offsets [%d, %d) are neither served nor called damaged", want.id, b.base, b.next)
		}
	}
	sealed := core.Index(0) // below it a start does not look for copies in the journal
	for _, p := range want.points {
		if p.journal || p.from < 0 {
			sealed = max(sealed, p.index)
		}
	}
	if g := l.active(); g != nil { // what lies before it was synced before it began
		sealed = max(sealed, g.header.BaseIndex-1)
	}
	for i := range want.places {
		p := &want.places[i]
		if p.inJournal && p.header.Index <= sealed {
			continue
		}
		if p.header.Kind != FrameData || p.header.Index > index || p.inJournal && w.journal || !w.spares(p.file, p.from, p.to) || !want.reached(w, p) {
			continue
		}
		for _, b := range want.order {
			if b.base >= p.header.BaseOffset && b.next <= p.header.Next() && b.base >= l.StartOffset() && !served[b.base] {
				about("partition %d: offsets [%d, %d) stand unhurt in %s at %d and are not served; the log is [%d, %d), %+v", want.id, b.base, b.next, p.file, p.from, l.StartOffset(), l.EndOffset(), l.Damaged())
			}
		}
	}
	if outcome == "" && l.EndOffset() < want.end {
		outcome = "cut"
	}
	return outcome
}

var hurtEndings = []string{"killed", "stopped", "cut", "reopened"}

// drawHurt makes one of many likely and unlikely things happen.
func drawHurt(random *rand.Rand, h *hurtFolder) *hurt {
	x := &hurt{file: uint16(random.IntN(len(h.files))), action: uint8(random.IntN(hurtActions)), at: random.Uint32()}
	switch random.IntN(4) {
	case 0: // near the beginning
		x.at = uint32(random.IntN(2 * FileHeaderBytes))
	case 1: // at a block's
		x.at = uint32(random.IntN(300)) * core.DiskAlignment
		if random.IntN(2) == 0 {
			x.at += uint32(random.IntN(2 * FrameHeaderBytes))
		}
	}
	x.bytes = make([]byte, []int{1, 2, 4, 8, 64, 500, 5000}[random.IntN(7)])
	switch random.IntN(3) {
	case 0:
		for i := range x.bytes {
			x.bytes[i] = byte(random.Uint32())
		}
	case 1:
		for i := range x.bytes {
			x.bytes[i] = 0xff
		}
	}
	return x
}

// TestRecoveryOfEachSegment takes each segment away, or a part of it.
func TestRecoveryOfEachSegment(t *testing.T) {
	outcomes := map[string]int{}
	for _, ending := range []string{"killed", "reopened"} {
		h := newHurtFolder(t, ending)
		for i, name := range h.files {
			if path.Ext(name) != LogExtension {
				continue
			}
			for _, x := range []hurt{
				{action: hurtRemove},
				{action: hurtReplace, bytes: []byte("gone")},
				{action: hurtTruncate, at: 140_000},
				{action: hurtTruncate, at: FileHeaderBytes},
				{action: hurtTruncate, at: 90_000},
				{action: hurtZero, at: FileHeaderBytes - 4, bytes: make([]byte, 440)}, // header, first mark, first frames
				{action: hurtZero, at: FileHeaderBytes, bytes: make([]byte, 5000)},
			} {
				x.file = uint16(i)
				outcomes[h.try(t, &x, 1)]++
			}
		}
	}
	t.Logf("%v", outcomes)
}

// TestRecoveryOfSealedNonsense gives good checksums to contents that no broker writes. A
// partition may refuse, a start may not panic.
func TestRecoveryOfSealedNonsense(t *testing.T) {
	outcomes := map[string]int{}
	ones := bytes.Repeat([]byte{0xff}, 8)
	h := newHurtFolder(t, "killed")
	try := func(file string, at int64, b []byte) {
		for i, name := range h.files {
			if name == file {
				outcomes[h.try(t, &hurt{file: uint16(i), action: hurtSealed, at: uint32(at), bytes: b}, 1)]++
			}
		}
	}
	seen := map[core.PartitionID]int{}
	for _, id := range h.ids {
		places := h.logs[id].places
		for i := len(places) - 1; i >= 0 && seen[id] < 2; i-- {
			p := &places[i]
			if p.header.Kind != FrameData {
				continue
			}
			seen[id]++
			for _, at := range []int64{32, 36, 40, 48} { // term, generation, base offset, span
				try(p.file, p.from+at, ones[:4])
			}
			try(p.file, p.from+24, ones)                       // index
			try(p.file, p.from+FrameHeaderBytes+8, ones[:4])   // the first batch's length
			try(p.file, p.from+FrameHeaderBytes+16, []byte{9}) // its magic
		}
	}
	for _, name := range h.files {
		if path.Ext(name) == StateExtension {
			for at := int64(FileHeaderBytes); at < FileHeaderBytes+stateHeadBytes; at += 8 {
				try(name, at, ones)
			}
		}
	}
	if outcomes["partition refused"] == 0 {
		t.Error("nothing was refused")
	}
	t.Logf("%v", outcomes)
}

// TestRecoveryOfAnyBytes hurts folders in many ways, the same in each run.
func TestRecoveryOfAnyBytes(t *testing.T) {
	outcomes := map[string]int{}
	for i, ending := range hurtEndings {
		h := newHurtFolder(t, ending)
		random := rand.New(rand.NewPCG(uint64(i), 9))
		rounds := 40
		if s := os.Getenv("HURT_ROUNDS"); s != "" { // the long form
			if rounds, _ = strconv.Atoi(s); rounds < 1 {
				t.Fatalf("HURT_ROUNDS is %q: a number is expected", s)
			}
		}
		for n := range rounds {
			shards := 1
			if n%8 == 7 {
				shards = 2
			}
			outcomes[h.try(t, drawHurt(random, h), shards)]++
		}
	}
	t.Logf("%v", outcomes)
}

// FuzzRecovery hurts folders as the fuzzer likes.
func FuzzRecovery(f *testing.F) {
	var folders []*hurtFolder
	for i, ending := range hurtEndings {
		h := newHurtFolder(f, ending)
		folders = append(folders, h)
		random := rand.New(rand.NewPCG(uint64(i), 10))
		for range 5 {
			x := drawHurt(random, h)
			f.Add(uint8(i), x.file, x.action, x.at, x.bytes)
		}
	}
	f.Fuzz(func(t *testing.T, ending uint8, file uint16, action uint8, at uint32, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		h := folders[int(ending)%len(folders)]
		h.try(t, &hurt{file: file, action: action, at: at, bytes: b}, 1+int(ending)/len(folders)%2)
	})
}
