package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// rig is a store on a disk in memory, driven turn by turn.
type rig struct {
	t       rigT
	fs      *mem.FS
	driver  *mem.Driver
	clock   *rigClock
	workers rigWorkers
	folder  *Folder
	store   *Store
	options rigOptions
	owners  map[core.PartitionID]*rigOwner
	ops     []*core.DiskOp
}

type rigOptions struct {
	folder FolderOptions
	store  Options
	log    LogOptions
	driver mem.DriverOptions
	slabs  core.SlabSource
	shard  core.ShardID
	said   *slog.Logger
	files  func(core.FS) core.FS // what the store sees instead of the disk's blocking view
}

type rigClock struct{ wall, mono int64 }

func (c *rigClock) Now() int64       { return c.wall }
func (c *rigClock) Monotonic() int64 { return c.mono }
func (c *rigClock) advance(n int64)  { c.wall += n; c.mono += n }

// rigWorkers runs jobs at the end of the turn in which they were submitted.
type rigWorkers struct {
	jobs []core.Job
	full bool
}

func (w *rigWorkers) Submit(j core.Job) bool {
	if w.full {
		return false
	}
	w.jobs = append(w.jobs, j)
	return true
}

// seeded is a source of salts that is the same in every run.
type seeded struct{ r *rand.Rand }

func (s seeded) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.r.Uint32())
	}
	return len(p), nil
}

func newSeeded(seed uint64) io.Reader { return seeded{rand.New(rand.NewPCG(seed, 7))} }

func smallFolder(shards int) FolderOptions {
	return FolderOptions{Shards: shards, JournalFileBytes: JournalFileBytesMin, JournalBytes: 4 * JournalFileBytesMin, Rand: newSeeded(1)}
}

// rigT is what the rig needs of *testing.T and *rapid.T.
type rigT interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func newRig(t rigT, change func(*rigOptions)) *rig {
	o := rigOptions{folder: smallFolder(1), log: LogOptions{Durability: core.DurabilitySync}, slabs: core.HeapSlabs{}}
	o.store.FreeBytesLow, o.store.FreeBytesHigh = 1, 2
	o.store.RetainNanos = 1 // each tick looks for old segments
	if change != nil {
		change(&o)
	}
	r := &rig{t: t, fs: mem.New(), options: o, clock: &rigClock{wall: 1_700_000_000e9, mono: 1e9}}
	r.start()
	return r
}

// start opens the folder and the store, not the logs.
func (r *rig) start() {
	r.t.Helper()
	if err := r.tryStart(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tryStart() error {
	r.owners = make(map[core.PartitionID]*rigOwner)
	r.workers = rigWorkers{}
	var files core.FS = r.fs
	if r.options.files != nil {
		files = r.options.files(r.fs)
	}
	folder, err := OpenFolder(files, r.options.folder)
	if err != nil {
		return err
	}
	r.folder = folder
	r.driver = r.fs.Driver(r.options.driver)
	r.store, err = OpenStore(folder, r.options.shard, Ports{
		Disk: r.driver, FS: files, Clock: r.clock, Workers: &r.workers, Slabs: r.options.slabs, Log: r.options.said,
	}, r.options.store)
	return err
}

func rigIdentity(id core.PartitionID) LogIdentity {
	return LogIdentity{Partition: id, Topic: core.TopicID{1, byte(id), byte(id >> 8)}, Number: core.PartitionNumber(id % 3)}
}

func (r *rig) create(id core.PartitionID) *rigOwner {
	o := &rigOwner{rig: r, id: id}
	r.owners[id] = o
	o.log = r.store.CreateLog(rigIdentity(id), r.options.log, o)
	return o
}

func (r *rig) tryOpen(id core.PartitionID) (*rigOwner, error) {
	o := &rigOwner{rig: r, id: id}
	l, err := r.store.OpenLog(rigIdentity(id), r.options.log, o)
	if err != nil {
		return nil, err
	}
	o.log = l
	r.owners[id] = o
	return o, nil
}

func (r *rig) open(id core.PartitionID) *rigOwner {
	r.t.Helper()
	o, err := r.tryOpen(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// serve starts the store with new logs.
func (r *rig) serve(ids ...core.PartitionID) []*rigOwner {
	var owners []*rigOwner
	for _, id := range ids {
		owners = append(owners, r.create(id))
	}
	r.store.Start()
	return owners
}

// turn is one round of the loop that drives a shard.
func (r *rig) turn() {
	r.store.Flush(r.clock.mono)
	r.reap()
}

func (r *rig) reap() {
	if r.ops == nil {
		r.ops = make([]*core.DiskOp, 64)
	}
	n := r.driver.Reap(r.ops)
	for _, op := range r.ops[:n] {
		op.Owner.Complete(op)
	}
	jobs := r.workers.jobs
	r.workers.jobs = nil
	for _, j := range jobs {
		j.Run()
		j.Done()
	}
}

// settle turns until nothing is in flight any more.
func (r *rig) settle() {
	r.t.Helper()
	for quiet, turns := 0, 0; quiet < 3; turns++ {
		if turns > 100_000 {
			r.t.Fatalf("after %d turns %d operations are in flight, %d logs wait to be placed, %d to be written", turns, r.driver.Pending(), len(r.store.placeList), len(r.store.kickList))
		}
		r.turn()
		if r.driver.Pending() == 0 && len(r.workers.jobs) == 0 && len(r.store.placeList) == 0 && len(r.store.kickList) == 0 {
			quiet++
		} else {
			quiet = 0
		}
		if r.ops == nil {
			r.t.Fatal("no driver")
		}
	}
}

// until turns until a condition holds.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for range 10_000 {
		if ok() {
			return
		}
		r.turn()
	}
	r.t.Fatalf("%s did not happen", what)
}

// tick moves the clocks and does the chores.
func (r *rig) tick(nanos int64) {
	r.clock.advance(nanos)
	r.store.Tick(r.clock.mono)
	r.settle()
}

// branch is another future of the rig: it goes on from a file system, and this one is
// not changed.
func (r *rig) branch(fs *mem.FS) *rig {
	r.t.Helper()
	c := *r
	c.ops, c.fs = nil, fs
	clock := *r.clock
	c.clock = &clock
	c.start()
	return &c
}

// crash cuts the power and starts again on what is left; logs are opened by the caller.
func (r *rig) crash(seed uint64, options mem.CrashOptions) {
	r.t.Helper()
	r.fs = r.fs.Crash(seed, options)
	r.start()
}

func (r *rig) kill(seed uint64) {
	r.t.Helper()
	r.fs = r.fs.Kill(seed)
	r.start()
}

// stop ends cleanly and starts again.
func (r *rig) stop() {
	r.t.Helper()
	r.store.Stop()
	r.until("the clean stop", func() bool { r.store.Tick(r.clock.mono); return r.store.Stopped() })
	r.settle()
}

// rigOwner is a partition: its state is a sum over its batches, in order.
type rigOwner struct {
	rig     *rig
	id      core.PartitionID
	log     *Log
	sum     uint64
	batches int
	history []rigBatch // what was appended and not rolled back, and what was replayed

	advanced int
	hear     func() // of each advance; nil: nobody listens
	rolled   []core.Offset
	rollErr  error
	restored bool
}

type rigBatch struct {
	base  core.Offset
	next  core.Offset
	bytes []byte
	sum   uint64 // of the state after it
}

func (o *rigOwner) Advanced(l *Log) {
	o.advanced++
	if o.hear != nil {
		o.hear()
	}
	t := o.rig.t
	if l.durable > l.written || l.written > l.end || l.durable > l.end {
		t.Fatalf("durable %d, written %d, end %d are out of order", l.durable, l.written, l.end)
	}
}

func (o *rigOwner) RolledBack(l *Log, next core.Offset, err error) {
	o.rolled = append(o.rolled, next)
	o.rollErr = err
	for len(o.history) > 0 && o.history[len(o.history)-1].base >= next {
		o.history = o.history[:len(o.history)-1]
	}
	o.sum, o.batches = 0, len(o.history)
	if n := len(o.history); n > 0 {
		o.sum = o.history[n-1].sum
	}
}

func (o *rigOwner) apply(b []byte) {
	o.sum = o.sum*31 + uint64(crcOf(b)) + 1
	o.batches++
	batch := proto.Batch(b)
	o.history = append(o.history, rigBatch{core.Offset(batch.BaseOffset()), core.Offset(batch.NextOffset()), slices.Clone(b), o.sum})
}

func (o *rigOwner) Snapshot(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, o.sum)
	return binary.BigEndian.AppendUint64(b, uint64(o.batches))
}

func (o *rigOwner) Restore(state []byte) error {
	o.restored = state != nil
	o.sum, o.batches, o.history = 0, 0, nil // a start may try again
	if state == nil {
		return nil
	}
	if len(state) != 16 {
		return fmt.Errorf("a state of %d bytes", len(state))
	}
	o.sum, o.batches = binary.BigEndian.Uint64(state), int(binary.BigEndian.Uint64(state[8:]))
	return nil
}

// Excerpt takes the whole frame along.
func (o *rigOwner) Excerpt(b []byte, _ *FrameHeader, payload []byte) []byte {
	return append(b, payload...)
}

func (o *rigOwner) Replay(h *FrameHeader, payload []byte) {
	if h.Kind != FrameData {
		return
	}
	if err := eachBatch(payload, func(_ int, b proto.Batch) error { o.apply(b); return nil }); err != nil {
		o.rig.t.Fatal(err)
	}
}

// makeBatch builds a batch of count records of about size bytes each.
func makeBatch(count, size int, timestamp int64, seed uint64) proto.Batch {
	var b proto.BatchBuilder
	b.Reset(proto.CodecNone)
	random := rand.New(rand.NewPCG(seed, 3))
	for i := range count {
		value := make([]byte, size)
		for j := range value {
			value[j] = byte(random.Uint32())
		}
		if err := b.Append(&proto.Record{Timestamp: timestamp + int64(i), Value: value}); err != nil {
			panic(err)
		}
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return append(proto.Batch(nil), batch...)
}

var batchSeed uint64

// append hands a batch to the log and notes it.
func (o *rigOwner) tryAppend(count, size int, level core.Durability) error {
	batchSeed++
	return o.tryAppendBatch(makeBatch(count, size, 1000*int64(batchSeed), batchSeed), count, level)
}

func (o *rigOwner) tryAppendBatch(batch proto.Batch, count int, level core.Durability) error {
	l := o.log
	batch.SetBaseOffset(int64(l.EndOffset()))
	batch.SetLeaderEpoch(int32(l.Term()))
	slab := o.rig.options.slabs.Get(core.BatchRoomBytes + len(batch) + core.DiskAlignment)
	if slab == nil {
		return ErrStoreBusy
	}
	copy(slab.Bytes[core.BatchRoomBytes:], batch)
	e := Entry{
		Slab: slab, Start: core.BatchRoomBytes, Bytes: uint32(len(batch)), BaseOffset: l.EndOffset(), Span: uint32(count),
		MaxTimestamp: batch.MaxTimestamp(), RecordsCRC: batch.RecordsCRC(), Level: level, AppendTime: o.rig.clock.wall,
	}
	if err := o.rig.store.Append(l, &e); err != nil {
		slab.Release()
		return err
	}
	o.apply(batch)
	return nil
}

func (o *rigOwner) append(count, size int) {
	o.rig.t.Helper()
	if err := o.tryAppend(count, size, o.log.options.Durability); err != nil {
		o.rig.t.Fatal(err)
	}
}

// ReadDone satisfies ReadOwner; the rig looks at the read itself.
func (o *rigOwner) ReadDone(*Read) {}

type rigRead struct {
	Read
	done bool
}

func (r *rigRead) ReadDone(*Read) { r.done = true }

// read gets everything from an offset on, read by read.
func (o *rigOwner) read(from, limit core.Offset, bytesMax int) ([]byte, error) {
	o.rig.t.Helper()
	var all []byte
	for from < limit {
		r := &rigRead{Read: Read{Log: o.log, Offset: from, Limit: limit, BytesMax: bytesMax}}
		r.Owner = r
		if !o.rig.store.Read(&r.Read) {
			o.rig.until("the read", func() bool { return r.done })
		}
		if r.Err != nil {
			return all, r.Err
		}
		if r.Next <= from {
			o.rig.t.Fatalf("a read from %d of [%d, %d) came back without progress", from, o.log.StartOffset(), limit)
		}
		var last proto.Batch
		for _, s := range r.Slices {
			all = append(all, s...)
			if err := eachBatch(s, func(_ int, b proto.Batch) error { last = b; return nil }); err != nil {
				o.rig.t.Fatal(err)
			}
		}
		if last != nil && core.Offset(last.NextOffset()) == r.Next && r.Term != core.Term(last.LeaderEpoch()) {
			o.rig.t.Fatalf("a read from %d is said to end in term %d, its last batch is of term %d", from, r.Term, last.LeaderEpoch())
		}
		from = r.Next
		r.Release()
	}
	return all, nil
}

// check compares the log with its history from an offset on.
func (o *rigOwner) check(from core.Offset) {
	o.rig.t.Helper()
	o.checkFrom(from, 256<<10)
}

func (o *rigOwner) checkFrom(from core.Offset, bytesMax int) {
	o.rig.t.Helper()
	l := o.log
	var want []byte
	next := l.start
	for _, b := range o.history {
		if b.next > from {
			want = append(want, b.bytes...)
		}
		next = b.next
	}
	if len(o.history) > 0 && next != l.EndOffset() {
		o.rig.t.Fatalf("the log ends at %d, its history at %d", l.EndOffset(), next)
	}
	got, err := o.read(from, l.EndOffset(), bytesMax)
	if err != nil {
		o.rig.t.Fatalf("read [%d, %d): %v", from, l.EndOffset(), err)
	}
	if !bytes.Equal(got, want) {
		o.rig.t.Fatalf("read %d bytes from %d on, want %d: %s", len(got), from, len(want), firstDifference(got, want))
	}
}

func firstDifference(a, b []byte) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("they differ at byte %d", i)
		}
	}
	return "one is the beginning of the other"
}

// verify has the offline verifier look at the disk as it is.
func (r *rig) verify() {
	r.t.Helper()
	var out bytes.Buffer
	sum, err := Verify(r.fs, NewReport(&out, false))
	if err != nil {
		r.t.Fatalf("verify: %v", err)
	}
	if !sum.Sound() {
		r.t.Fatalf("verify finds damage:\n%s", out.String())
	}
}

// batchTimestamp is the time of a batch's first record.
func batchTimestamp(b rigBatch) int64 { return proto.Batch(b.bytes).BaseTimestamp() }

// valueBatch is a batch of one record with a value.
func valueBatch(value []byte) proto.Batch {
	var b proto.BatchBuilder
	b.Reset(proto.CodecNone)
	if err := b.Append(&proto.Record{Timestamp: 1000, Value: value}); err != nil {
		panic(err)
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return slices.Clone(batch)
}
