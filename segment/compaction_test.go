package segment

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
	"pgregory.net/rapid"
)

// appendKeyed appends one record with a key.
func (o *rigOwner) appendKeyed(key string, value []byte) {
	o.rig.t.Helper()
	l := o.log
	var builder proto.BatchBuilder
	if err := builder.Append(&proto.Record{Timestamp: 1, Key: []byte(key), Value: value}); err != nil {
		o.rig.t.Fatal(err)
	}
	batch, err := builder.Build()
	if err != nil {
		o.rig.t.Fatal(err)
	}
	batch.SetBaseOffset(int64(l.EndOffset()))
	batch.SetLeaderEpoch(int32(l.Term()))
	slab := o.rig.options.slabs.Get(core.BatchRoomBytes + len(batch) + core.DiskAlignment)
	copy(slab.Bytes[core.BatchRoomBytes:], batch)
	e := Entry{Slab: slab, Start: core.BatchRoomBytes, Bytes: uint32(len(batch)), BaseOffset: l.EndOffset(), Span: 1,
		MaxTimestamp: 1, RecordsCRC: batch.RecordsCRC(), Level: core.DurabilitySync, AppendTime: o.rig.clock.wall}
	if err := o.rig.store.Append(l, &e); err != nil {
		slab.Release()
		o.rig.t.Fatal(err)
	}
	o.apply(batch)
}

// keys reads the whole log and returns the last value of each key, and how many
// records there are.
func (o *rigOwner) keys() (last map[string]string, records int) {
	o.rig.t.Helper()
	all, err := o.read(o.log.StartOffset(), o.log.EndOffset(), 1<<20)
	if err != nil {
		o.rig.t.Fatal(err)
	}
	last = map[string]string{}
	var it proto.RecordIterator
	next := int64(-1)
	if err := eachBatch(all, func(_ int, b proto.Batch) error {
		if b.BaseOffset() < next {
			return fmt.Errorf("batch at %d after %d", b.BaseOffset(), next)
		}
		next = b.NextOffset()
		if err := it.Reset(b, 1<<20); err != nil {
			return err
		}
		for it.Next() {
			records++
			last[string(it.Record().Key)] = string(it.Record().Value)
		}
		return it.Err()
	}); err != nil {
		o.rig.t.Fatal(err)
	}
	return last, records
}

// TestStoreCompacts: a store with a compacted topic keeps the last value of each
// key, while it serves and after each manner of ending.
func TestStoreCompacts(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"power cut":  func(r *rig) { r.crash(7, mem.CrashOptions{}) },
		"kill":       func(r *rig) { r.kill(7) },
		"clean stop": func(r *rig) { r.stop(); r.kill(0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) {
				o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 64 << 10, Compact: true}
				o.store.StateBytes = 16 << 10
				o.store.CacheBytes = 64 << 10
			})
			r.serve(16)
			o := r.owners[16]
			want := map[string]string{}
			round := 0
			work := func() {
				for range 8 {
					for i := range 100 {
						key := fmt.Sprint("key-", i%10)
						value := bytes.Repeat([]byte{byte('a' + round%26)}, 400)
						o.appendKeyed(key, value)
						want[key] = string(value)
						r.turn()
					}
					round++
					r.settle()
					r.tick(20e9)
				}
			}
			check := func(when string) {
				t.Helper()
				got, records := o.keys()
				if len(got) != len(want) || records >= int(o.log.EndOffset()) {
					t.Fatalf("%s: %d keys, %d records of %d", when, len(got), records, o.log.EndOffset())
				}
				for k, v := range want {
					if got[k] != v {
						t.Fatalf("%s: %s is %.10q, want %.10q", when, k, got[k], v)
					}
				}
				var out bytes.Buffer
				if sum, err := Verify(r.fs, NewReport(&out, false)); err != nil || !sum.Sound() {
					t.Fatalf("%s: %v\n%s", when, err, out.String())
				}
			}
			for life := range 3 {
				before := r.store.stats.Compactions
				work()
				if r.store.stats.Compactions == before || r.store.stats.CompactWritten == 0 {
					t.Fatalf("life %d: no compaction: %+v", life, r.store.stats)
				}
				check("while it serves")
				end(r)
				o = r.open(16)
				r.store.Start()
				r.settle()
				check("after the start")
			}
		})
	}
}

// A pass that a stop of the store ends is no failure of it.
func TestStoppedCompactionIsNoFailure(t *testing.T) {
	var out bytes.Buffer
	r := newRig(t, func(o *rigOptions) {
		o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 64 << 10, Compact: true}
		o.store.StateBytes = 16 << 10
		o.said = slog.New(slog.NewTextHandler(&out, nil))
	})
	o := r.serve(16)[0]
	for i := 0; r.store.compactor.job == nil; i++ {
		if i > 10_000 {
			t.Fatal("no compaction begins")
		}
		o.appendKeyed(fmt.Sprint("key-", i%10), make([]byte, 400))
		r.turn()
		r.clock.advance(1e9)
		r.store.Tick(r.clock.mono)
	}
	r.stop()
	if stats := r.store.Stats(); stats.Compactions != 1 || stats.CompactFailures != 0 || stats.CompactWritten != 0 {
		t.Errorf("%d passes, %d failed, %d bytes written", stats.Compactions, stats.CompactFailures, stats.CompactWritten)
	}
	if strings.Contains(out.String(), "level=WARN") {
		t.Error(out.String())
	}
}

// TestStoreCompactsAcrossCrashes ends the store at any turn of a pass and its
// swaps: the last value of each key that was durable stays the last.
func TestStoreCompactsAcrossCrashes(t *testing.T) {
	swapped := 0
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, func(o *rigOptions) {
			o.log = LogOptions{Durability: core.DurabilitySync, SegmentBytes: 64 << 10, Compact: true}
			o.store.StateBytes = 16 << 10
			o.store.CacheBytes = 64 << 10
			o.driver = mem.DriverOptions{Reorder: true, Seed: rapid.Uint64().Draw(t, "seed")}
		})
		r.serve(16)
		o := r.owners[16]
		want := map[string]string{}
		for life := range rapid.IntRange(1, 4).Draw(t, "lives") {
			for round := range rapid.IntRange(1, 4).Draw(t, "rounds") {
				for i := range 100 {
					key := fmt.Sprint("key-", i%rapid.IntRange(1, 20).Draw(t, "keys"))
					value := bytes.Repeat([]byte{byte('a' + life), byte('a' + round), byte(i)}, 150)
					o.appendKeyed(key, value)
					want[key] = string(value)
					if i%10 == 9 {
						r.settle()
					}
				}
				r.settle()
				r.clock.advance(20e9)
				r.store.Tick(r.clock.mono)
				for range rapid.IntRange(0, 12).Draw(t, "turns") {
					r.turn()
				}
			}
			if o.log.DurableOffset() != o.log.EndOffset() {
				r.settle()
			}
			for _, g := range o.log.segments {
				if g.header.ReplacesNext > 0 {
					swapped++
				}
			}
			seed := rapid.Uint64().Draw(t, "crash")
			if rapid.Bool().Draw(t, "power") {
				r.crash(seed, mem.CrashOptions{})
			} else {
				r.kill(seed)
			}
			o = r.open(16)
			r.store.Start()
			r.settle()
			got, _ := o.keys()
			for k, v := range want {
				if got[k] != v {
					t.Fatalf("%s is %.10q, want %.10q", k, got[k], v)
				}
			}
			if len(got) != len(want) || len(o.log.Damaged()) > 0 {
				t.Fatalf("%d keys, want %d; damaged %v", len(got), len(want), o.log.Damaged())
			}
			var out bytes.Buffer
			if sum, err := Verify(r.fs, NewReport(&out, false)); err != nil || !sum.Sound() {
				t.Fatalf("%v\n%s", err, out.String())
			}
		}
	})
	if swapped == 0 {
		t.Fatal("no compacted segment was ever in place at a crash")
	}
}
