package segment

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// fleet is the shards of a node on one disk, and what each partition must hold.
type fleet struct {
	t          rigT
	fs         *mem.FS
	clock      *rigClock
	options    rigOptions
	rigs       []*rig
	partitions []*modelled // live ones, ascending
	deleted    map[core.PartitionID]bool
	nextID     core.PartitionID
	lost       bool // a journal has failed: nothing more is acked before the next start
}

// modelled is a partition as the model has it.
type modelled struct {
	id      core.PartitionID
	options LogOptions
	owner   *rigOwner
	keep    []rigBatch // acked as durable: must be there as long as the partition is
	written core.Offset
	epoch   int32       // of the newest batch that was acked or shown at any level
	start   core.Offset // acked
	asked   core.Offset // the highest trim that was asked for
	retains bool        // retention may move the start, too
}

func (f *fleet) rigOf(id core.PartitionID) *rig { return f.rigs[core.ShardOf(id, len(f.rigs))] }

// start opens the folder with a number of shards, and every partition.
func (f *fleet) start(shards int) {
	f.t.Helper()
	f.options.folder.Shards = shards
	f.lost = false
	folder, err := OpenFolder(f.fs, f.options.folder)
	if err != nil {
		f.t.Fatal(err)
	}
	f.rigs = nil
	for shard := range shards {
		o := f.options
		o.driver.Seed += uint64(shard)
		r := &rig{t: f.t, fs: f.fs, options: o, clock: f.clock, folder: folder, driver: f.fs.Driver(o.driver), owners: map[core.PartitionID]*rigOwner{}}
		r.store, err = OpenStore(folder, core.ShardID(shard), Ports{Disk: r.driver, FS: f.fs, Clock: f.clock, Workers: &r.workers, Slabs: o.slabs}, o.store)
		if err != nil {
			f.t.Fatal(err)
		}
		f.rigs = append(f.rigs, r)
	}
}

// serve ends the start.
func (f *fleet) serve() {
	f.t.Helper()
	for _, r := range f.rigs {
		known := func(id core.PartitionID) bool { return f.deleted[id] }
		if err := errors.Join(r.store.Hold(known), r.store.Quarantine(known)); err != nil {
			f.t.Fatal(err)
		}
		if r.store.stats.Quarantined > 0 {
			f.t.Fatal("frames of a known partition were put into quarantine")
		}
		r.store.Start()
	}
}

func (f *fleet) create(o LogOptions) *modelled {
	p := &modelled{id: f.nextID, options: o, retains: o.RetentionBytes > 0}
	f.nextID++
	r := f.rigOf(p.id)
	p.owner = &rigOwner{rig: r, id: p.id}
	p.owner.log = r.store.CreateLog(rigIdentity(p.id), o, p.owner)
	r.owners[p.id] = p.owner
	f.partitions = append(f.partitions, p)
	return p
}

// delete drops a partition. The deletion is on record from now on.
func (f *fleet) delete(p *modelled) {
	f.deleted[p.id] = true
	f.partitions = slices.DeleteFunc(f.partitions, func(q *modelled) bool { return q == p })
	f.rigOf(p.id).store.DropLog(p.owner.log, nil)
}

// turn is one round of all shards; what was acked is noted before and after.
func (f *fleet) turn() {
	f.t.Helper()
	for _, r := range f.rigs {
		r.turn()
		f.lost = f.lost || r.store.Err() != nil
	}
	f.note()
}

// turns goes on for a while, or until nothing is in flight.
func (f *fleet) turns(most int) {
	f.t.Helper()
	for range most {
		f.turn()
		if !slices.ContainsFunc(f.rigs, (*rig).busy) {
			return
		}
	}
}

func (r *rig) busy() bool {
	s := r.store
	return r.driver.Pending() > 0 || len(r.workers.jobs) > 0 || len(s.placeList) > 0 || len(s.kickList) > 0
}

func (f *fleet) tick(nanos int64) {
	f.clock.advance(nanos)
	for _, r := range f.rigs {
		r.store.Tick(f.clock.mono)
	}
}

// note takes down what has been acked until now.
func (f *fleet) note() {
	f.t.Helper()
	for _, p := range f.partitions {
		l, o := p.owner.log, p.owner
		if len(p.keep) > len(o.history) {
			f.t.Fatalf("partition %d was rolled back to %d batches, %d are acked", p.id, len(o.history), len(p.keep))
		}
		for len(p.keep) < len(o.history) && o.history[len(p.keep)].next <= l.DurableOffset() {
			p.keep = append(p.keep, o.history[len(p.keep)])
		}
		if n := len(p.keep); n > 0 && p.keep[n-1].next > l.DurableOffset() {
			f.t.Fatalf("partition %d: the durable offset went back to %d", p.id, l.DurableOffset())
		}
		p.written = l.WrittenOffset()
		for i := len(o.history) - 1; i >= 0; i-- {
			if b := o.history[i]; b.next <= l.ReachedOffset(p.options.Durability) {
				p.epoch = max(p.epoch, proto.Batch(b.bytes).LeaderEpoch())
				break
			}
		}
		if l.StartOffset() < p.start {
			f.t.Fatalf("partition %d: the log start went back from %d to %d", p.id, p.start, l.StartOffset())
		}
		p.start = l.StartOffset()
		if p.start > p.asked && !p.retains {
			f.t.Fatalf("partition %d begins at %d, asked for was %d", p.id, p.start, p.asked)
		}
	}
}

// crashKind is how a node ends.
type crashKind int

const (
	endPower crashKind = iota
	endKill
	endStop
)

// restart ends the node and starts it again, and holds what came back against
// what was acked: of each partition a beginning of what was appended, with all
// that was durable, and after a mere kill all that was written.
func (f *fleet) restart(kind crashKind, seed uint64, shards int) {
	f.t.Helper()
	f.note()
	if kind == endStop {
		f.stop()
	}
	f.addStats()
	if f.lost {
		kind = min(kind, endKill)
	}
	if kind == endPower {
		f.fs = f.fs.Crash(seed, mem.CrashOptions{})
	} else {
		f.fs = f.fs.Kill(seed)
	}
	for id := range f.deleted {
		if err := f.fs.RemoveAll(rigIdentity(id).dir()); err != nil {
			f.t.Fatal(err)
		}
	}
	f.start(shards)
	for _, p := range f.partitions {
		f.reopen(p, kind)
	}
	f.serve()
}

func (f *fleet) stop() {
	f.t.Helper()
	for _, r := range f.rigs {
		r.store.Stop()
	}
	for range 5000 {
		f.turn()
		f.tick(1e6)
		if f.lost || !slices.ContainsFunc(f.rigs, func(r *rig) bool { return !r.store.Stopped() }) {
			f.turns(100)
			return
		}
	}
	f.t.Fatal("the stop does not end")
}

func (f *fleet) reopen(p *modelled, kind crashKind) {
	f.t.Helper()
	before, r := p.owner.history, f.rigOf(p.id)
	o := &rigOwner{rig: r, id: p.id}
	l, err := r.store.OpenLog(rigIdentity(p.id), p.options, o)
	if err != nil {
		f.t.Fatal(err)
	}
	o.log, p.owner, r.owners[p.id] = l, o, o
	skipped := o.batches - len(o.history) // what the state stands for is not replayed
	if o.batches > len(before) {
		f.t.Fatalf("partition %d has %d batches, %d were appended", p.id, o.batches, len(before))
	}
	for i, b := range o.history {
		if want := before[skipped+i]; b.base != want.base || b.sum != want.sum {
			f.t.Fatalf("partition %d: batch %d came back at offset %d with another content or place, it was at %d", p.id, skipped+i, b.base, want.base)
		}
	}
	o.history = slices.Clone(before[:o.batches])
	end := core.Offset(0)
	if n := len(o.history); n > 0 {
		end = o.history[n-1].next
		if o.sum != o.history[n-1].sum {
			f.t.Fatalf("partition %d: the derived state differs after the start (restored %v)", p.id, o.restored)
		}
	}
	least := len(p.keep)
	switch {
	case kind == endStop:
		least = len(before)
	case kind == endKill && !f.lost && end < p.written:
		f.t.Fatalf("partition %d ends at %d after a kill, %d was written", p.id, end, p.written)
	}
	if o.batches < least || end != l.EndOffset() || len(l.Damaged()) > 0 {
		f.t.Fatalf("partition %d ends at %d with %d batches up to %d, %d must be there; damaged %+v", p.id, l.EndOffset(), o.batches, end, least, l.Damaged())
	}
	if l.StartOffset() < p.start || l.StartOffset() > p.asked && !p.retains {
		f.t.Fatalf("partition %d begins at %d, acked %d, asked %d", p.id, l.StartOffset(), p.start, p.asked)
	}
	if kind != endStop && p.epoch > 0 && int32(l.Term()) <= p.epoch {
		f.t.Fatalf("partition %d: term %d after the crash, a batch of epoch %d was acked", p.id, l.Term(), p.epoch)
	}
	if kind == endStop && !r.store.Clean() {
		f.t.Fatal("the start after a clean stop is called unclean")
	}
	p.start = l.StartOffset()
	p.keep = slices.Clone(o.history[:min(len(o.history), max(len(p.keep), least))])
}

// check reads a partition and compares it with the model: a compacted one by the
// newest value of each key.
func (f *fleet) check(p *modelled, bytesMax int) {
	f.t.Helper()
	o := p.owner
	if !p.options.Compact {
		o.checkFrom(o.log.StartOffset(), bytesMax)
		return
	}
	want := map[string]string{}
	var it proto.RecordIterator
	for _, b := range o.history {
		if b.base < o.log.StartOffset() {
			continue
		}
		if err := it.Reset(proto.Batch(b.bytes), 1<<20); err != nil {
			f.t.Fatal(err)
		}
		for it.Next() {
			want[string(it.Record().Key)] = string(it.Record().Value)
		}
	}
	got, records := o.keys()
	if len(got) != len(want) {
		f.t.Fatalf("partition %d has %d keys in %d records, want %d", p.id, len(got), records, len(want))
	}
	for k, v := range want {
		if got[k] != v {
			f.t.Fatalf("partition %d: key %q has another value", p.id, k)
		}
	}
}

// keyedBatch is one record with one of a few keys.
func keyedBatch(codec proto.Codec, key, size int, seed uint64) proto.Batch {
	var b proto.BatchBuilder
	b.Reset(codec)
	value := fmt.Appendf(nil, "%d:%0*d", seed, size, key)
	if err := b.Append(&proto.Record{Timestamp: int64(seed), Key: fmt.Appendf(nil, "key-%d", key), Value: value}); err != nil {
		panic(err)
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return append(proto.Batch(nil), batch...)
}
