package shard

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// readAll reads a partition from its start, chunk by chunk.
func (n *node) readAll(id core.PartitionID) (records []proto.Record) {
	n.t.Helper()
	f := n.fetchRequest(id, n.owner(id).partitions[id].log.StartOffset())
	for got := n.ask(f); ; got = n.answers() {
		if len(got) != 1 || got[0].Err != nil {
			n.t.Fatalf("reading partition %d: %+v", id, got)
		}
		records = append(records, parcelRecords(n.t, got[0].Parcel)...)
		if got[0].Parcel != nil {
			n.giveBack(id, got[0].Parcel)
			n.settle()
		}
		if !got[0].More {
			return records
		}
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	for _, clean := range []bool{true, false} {
		n := newNode(t, 2)
		topic := n.create("t", 4, "durability", "sync")
		n.create("gone", 1)
		n.admin(&proto.DeleteTopicRequest{Name: "gone"})
		for i, p := range topic.Partitions {
			for s := range int32(3) {
				a := n.one(n.produceRequest(p.ID, batchSpec{records: 2, value: 50, producer: int64(i), sequence: 2 * s}))
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
		}
		if clean {
			n.stop()
		}
		n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
		if n.view.Topics() != 1 || n.view.TopicByName("gone") != nil {
			t.Fatalf("%d topics", n.view.Topics())
		}
		for i, p := range topic.Partitions {
			if got := n.readAll(p.ID); len(got) != 6 {
				t.Errorf("clean %v: partition %d has %d records", clean, i, len(got))
			}
			// The producer's state came back: a retry is a duplicate, the next batch fits.
			a := n.one(n.produceRequest(p.ID, batchSpec{records: 2, value: 50, producer: int64(i), sequence: 4}))
			if a.Err != nil || !a.Duplicate || a.Offset != 4 {
				t.Errorf("clean %v: retry %+v", clean, a)
			}
			a = n.one(n.produceRequest(p.ID, batchSpec{records: 1, producer: int64(i), sequence: 6}))
			if a.Err != nil || a.Duplicate || a.Offset != 6 {
				t.Errorf("clean %v: next %+v", clean, a)
			}
		}
		// Ids of producers are not given out twice, those of partitions neither.
		fresh := n.create("fresh", 1).Partitions[0].ID
		if fresh <= topic.Partitions[3].ID+1 {
			t.Errorf("partition id %d was used before", fresh)
		}
	}
}

func TestUncleanRestartRaisesTheEpoch(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1, "durability", "none").Partitions[0].ID
	a := n.one(n.produceRequest(id, batchSpec{records: 5, producer: -1}))
	n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	b := n.one(n.produceRequest(id, batchSpec{records: 1, producer: -1}))
	if b.Err != nil || b.LeaderEpoch <= a.LeaderEpoch {
		t.Fatalf("epoch %d, then %d", a.LeaderEpoch, b.LeaderEpoch)
	}
	if b.Offset >= 5 {
		return // everything survived this time
	}
	f := n.fetchRequest(id, 5)
	f.LastEpoch = a.LeaderEpoch
	if got := n.one(f); got.Err == nil || got.Err.Code != proto.CodeLogTruncated || got.Err.Truncation.EndOffset != int64(b.Offset) {
		t.Errorf("a reader of what vanished: %+v", got.Err)
	}
}

// Fails of a direct write: who waits is told, offsets return, producers too.
func TestFailedWriteRollsBack(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	big := 200 << 10 // goes straight to its segment
	first := n.produceRequest(id, batchSpec{records: 1, value: big, producer: 3, sequence: 0})
	if a := n.one(first); a.Err != nil {
		t.Fatal(a.Err)
	}
	fault := n.disks[0].folder.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*", Count: 1})
	wait := n.fetchRequest(id, 1)
	wait.BytesMin, wait.Wait = 1, int64(20e9)
	n.send(&wait)
	second := n.produceRequest(id, batchSpec{records: 1, value: big, producer: 3, sequence: 1})
	a := n.one(second)
	if fault.Hits() == 0 {
		t.Skip("the engine did not sync a segment for this write")
	}
	if a.Err == nil || !errors.Is(a.Err, proto.ErrStorageError) || !a.Err.Retriable() {
		t.Fatalf("answer %+v", a)
	}
	p := n.machines[0].partitions[id]
	if p.log.EndOffset() != 1 || p.pendingBytes != 0 || p.acks.count != 0 {
		t.Fatalf("end %d, %d bytes, %d acks", p.log.EndOffset(), p.pendingBytes, p.acks.count)
	}
	var got []mail.Answer
	for range 5 { // the retry is stored once
		n.clock.advance(1e9)
		got = append(got, n.ask(n.produceRequest(id, batchSpec{records: 1, value: big, producer: 3, sequence: 1}))...)
		if len(got) > 0 && got[len(got)-1].Err == nil {
			break
		}
	}
	stored := 0
	for _, a := range got {
		if a.Kind == mail.AnswerProduce && a.Err == nil && !a.Duplicate && a.Offset == 1 {
			stored++
		}
	}
	if stored != 1 || len(n.readAll(id)) != 2 {
		t.Errorf("answers %+v", got)
	}
}

// A log that returned to its durable point between two chunks of an answer may have grown again beyond what the reader
// has: it is told that the log was cut, and neither goes on behind records that it never saw nor hears of an offset that
// there is not.
func TestRollbackBetweenChunksIsTold(t *testing.T) {
	for _, again := range []int{0, 1, 6} {
		n := newNode(t, 1)
		id := n.create("t", 1, "durability", "batch", "flush.bytes", "64MiB").Partitions[0].ID
		p := n.machines[0].partitions[id]
		produceN(n, id, 1, 1, 400<<10)
		for range 20 {
			n.clock.advance(1e9)
			n.settle()
		}
		if p.log.DurableOffset() != 1 {
			t.Fatalf("durable up to %d", p.log.DurableOffset())
		}
		fault := n.disks[0].folder.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*", Count: 1})
		produceN(n, id, 5, 1, 400<<10)
		f := n.fetchRequest(id, 0)
		f.BytesMax, f.LastEpoch = 4<<20, -1
		chunk := n.one(f)
		if chunk.Parcel == nil || !chunk.More || chunk.Offset < 2 {
			t.Fatalf("the first chunk: %+v", chunk)
		}
		for range 20 {
			n.clock.advance(1e9)
			n.settle()
		}
		if fault.Hits() == 0 || n.machines[0].stats.RolledBack == 0 || p.log.EndOffset() != 1 {
			t.Fatalf("the fault was hit %d times, the log ends at %d", fault.Hits(), p.log.EndOffset())
		}
		produceN(n, id, again, 1, 400<<10)
		n.giveBack(id, chunk.Parcel)
		n.settle()
		got := n.answers()
		if len(got) != 1 || got[0].Err == nil || got[0].Err.Code != proto.CodeLogTruncated || got[0].Err.Truncation.EndOffset != 1 {
			t.Errorf("with %d batches since, the reader at %d is answered %+v", again, chunk.Offset, got)
		}
	}
}

func TestFullDisk(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 10)
	fault := n.disks[0].folder.fs.Inject(&mem.Fault{Kind: core.DiskAllocate, Path: "topics/*", Count: -1, Err: core.ErrDiskFull})
	full := false
	for range 20 {
		n.clock.advance(1e9)
		a := n.one(n.produceRequest(id, batchSpec{records: 1, value: 900 << 10, producer: -1}))
		if a.Err != nil && a.Err.Code == proto.CodeStorageFull {
			full = true
			break
		}
	}
	if fault.Hits() == 0 {
		t.Skip("the engine did not allocate")
	}
	if !full {
		t.Error("a full disk was never told")
	}
	if got := n.readAll(id); len(got) == 0 {
		t.Error("nothing can be read while the disk is full")
	}
	// What makes room works; what takes room does not.
	if a := n.admin(&proto.CreateTopicRequest{Name: "more", Partitions: 1}); a.Err == nil || a.Err.Code != proto.CodeStorageFull {
		t.Errorf("a topic created on a full disk: %+v", a.Err)
	}
	if a := n.admin(&proto.AlterTopicRequest{Name: "t", Set: []proto.TopicConfig{{Key: "retention.bytes", Value: "1MiB"}}}); a.Err != nil {
		t.Errorf("retention lowered on a full disk: %v", a.Err)
	}
	if a := n.admin(&proto.DeleteTopicRequest{Name: "t"}); a.Err != nil {
		t.Errorf("a topic deleted on a full disk: %v", a.Err)
	}
}

func TestDamageNamesTheRange(t *testing.T) {
	p := &partition{topic: &core.Topic{Name: "orders"}, number: 7, machine: &Machine{}}
	err := p.readError(&segment.Read{Err: &segment.CorruptError{Start: 5, Next: 9, Cause: errors.New("payload checksum")}})
	if err.Code != proto.CodeCorruptRecord || err.Damage == nil || *err.Damage != (proto.DamagedRange{BaseOffset: 5, NextOffset: 9}) {
		t.Fatalf("%+v", err)
	}
	for _, word := range []string{"orders", "partition 7", "[5, 9)"} {
		if !bytes.Contains([]byte(err.Text), []byte(word)) {
			t.Errorf("%q does not say %q", err.Text, word)
		}
	}
}

// Idempotent producers against a map of what was acked, through crashes: every
// acked record is where it was acked, once; a batch that was not acked is absent
// or there once; retries are answered with the first offset.
func TestIdempotentProducersThroughCrashes(t *testing.T) {
	// Each run starts several brokers; a fourth of the usual number is enough.
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { _ = checks.Value.Set(before) }()
	if n, err := strconv.Atoi(before); err == nil {
		_ = checks.Value.Set(strconv.Itoa(max(1, n/4)))
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := newNode(t, 1)
		topic := n.create("t", 2)
		type sent struct {
			spec batchSpec
			at   core.Offset // -1 while not acked
		}
		history := map[core.PartitionID][]*sent{}
		next := map[string]int32{}
		for step := range rapid.IntRange(1, 10).Draw(rt, "steps") {
			id := topic.Partitions[rapid.IntRange(0, 1).Draw(rt, "partition")].ID
			switch action := rapid.IntRange(0, 9).Draw(rt, "action"); {
			case action == 0:
				n.crash(rapid.Uint64().Draw(rt, "seed"), mem.CrashOptions{})
				// What was not acked is sent again, in order, as a client does.
				for _, p := range topic.Partitions {
					for _, s := range history[p.ID] {
						if s.at < 0 {
							a := n.one(n.produceRequest(p.ID, s.spec))
							if a.Err != nil {
								rt.Fatalf("retry of %+v: %v", s.spec, a.Err)
							}
							s.at = a.Offset
						}
					}
				}
			case action == 1 && len(history[id]) > 0: // an old batch again
				s := history[id][max(0, len(history[id])-3)]
				a := n.one(n.produceRequest(id, s.spec))
				if a.Err == nil && (!a.Duplicate || a.Offset != s.at) || a.Err != nil && a.Err.Code != proto.CodeDuplicateSequence {
					rt.Fatalf("step %d: %+v again: %+v", step, s, a)
				}
			case action == 2: // sent, and nobody hears the answer
				producer := rapid.Int64Range(0, 1).Draw(rt, "producer")
				key := fmt.Sprint(id, producer)
				s := &sent{batchSpec{records: 1, value: 20, producer: producer, sequence: next[key]}, -1}
				next[key]++
				history[id] = append(history[id], s)
				n.held = true
				r := n.produceRequest(id, s.spec)
				n.send(&r)
				for range rapid.IntRange(0, 3).Draw(rt, "turns") {
					n.turn()
				}
				n.crash(rapid.Uint64().Draw(rt, "seed"), mem.CrashOptions{})
				a := n.one(n.produceRequest(id, s.spec))
				if a.Err != nil {
					rt.Fatalf("retry of %+v: %v", s.spec, a.Err)
				}
				s.at = a.Offset
			default:
				producer := rapid.Int64Range(0, 1).Draw(rt, "producer")
				key := fmt.Sprint(id, producer)
				records := rapid.IntRange(1, 3).Draw(rt, "records")
				s := &sent{batchSpec{records: records, value: rapid.SampledFrom([]int{10, 1000, 70 << 10}).Draw(rt, "value"), producer: producer, sequence: next[key]}, -1}
				next[key] += int32(records)
				a := n.one(n.produceRequest(id, s.spec))
				if a.Err != nil || a.Duplicate || a.Durability != core.DurabilitySync {
					rt.Fatalf("step %d: %+v", step, a)
				}
				s.at = a.Offset
				history[id] = append(history[id], s)
			}
		}
		n.crash(rapid.Uint64().Draw(rt, "seed"), mem.CrashOptions{})
		for _, p := range topic.Partitions {
			got := n.readAll(p.ID)
			byOffset := map[int64]proto.Record{}
			for i, r := range got {
				if r.Offset != int64(i) {
					rt.Fatalf("partition %d: offset %d at place %d", p.ID, r.Offset, i)
				}
				byOffset[r.Offset] = r
			}
			total := 0
			for _, s := range history[p.ID] {
				for i := range s.spec.records {
					if r, ok := byOffset[int64(s.at)+int64(i)]; !ok || len(r.Value) != s.spec.value {
						rt.Fatalf("partition %d: acked %+v, found %d bytes, %v", p.ID, s, len(r.Value), ok)
					}
				}
				total += s.spec.records
			}
			if total != len(got) {
				rt.Fatalf("partition %d holds %d records, %d were sent", p.ID, len(got), total)
			}
		}
	})
}
