package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/deadletter"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/queue"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// mourner is a window whose ops take effect when the test says so.
type mourner struct {
	w       *queue.Window
	b       *burial
	id      core.ProducerID
	ops     []queue.Op // not applied yet
	laidOps int
}

func (d *mourner) dying(list []queue.Burial, number uint64, most int) []queue.Burial {
	return d.w.AppendDying(list, number, most)
}
func (d *mourner) producer() core.ProducerID { return d.id }
func (d *mourner) laid(ops []queue.Op) {
	d.ops = append(d.ops, ops...)
	d.laidOps += len(ops)
}

func (d *mourner) apply() {
	for i := range d.ops {
		d.w.Apply(&d.ops[i], 1<<20)
	}
	d.ops = nil
	d.b.stir()
}

// mourn attaches a window to a partition of the node.
func (n *node) mourn(id core.PartitionID, w *queue.Window) *mourner {
	d := &mourner{w: w, id: burialProducer(id, "g", w.Identity())}
	d.b = newBurial(n.owner(id).partitions[id], "g", d)
	return d
}

// die has records die in the order given, of a reason with their offset in it.
func (d *mourner) die(offsets ...int64) {
	for _, o := range offsets {
		for a := uint16(1); a <= 3; a++ {
			d.w.Apply(&queue.Op{Kind: queue.Lease, Base: o, Next: o + 1, Attempts: a}, 0)
		}
		d.w.Apply(&queue.Op{Kind: queue.Die, Base: o, Next: o + 1, Reason: queue.Rejected, Text: fmt.Sprint("why ", o)}, 1<<20)
	}
	d.b.stir()
}

// fill produces records whose values are their offsets, some to a batch.
func (n *node) fill(id core.PartitionID, batches, records int, codec proto.Codec) {
	n.t.Helper()
	var b proto.BatchBuilder
	for at := 0; at < batches*records; at += records {
		b.Reset(codec)
		for i := range records {
			r := proto.Record{Timestamp: 1_000 + int64(at+i), Key: fmt.Append(nil, "key ", at+i), Value: fmt.Append(nil, at+i), Headers: []proto.Header{{Key: []byte("h"), Value: []byte("v")}}}
			if err := b.Append(&r); err != nil {
				n.t.Fatal(err)
			}
		}
		batch, err := b.Build()
		if err != nil {
			n.t.Fatal(err)
		}
		if a := n.one(n.produceBatch(id, batch)); a.Err != nil {
			n.t.Fatal(a.Err)
		}
	}
}

// letters are the dead letters of a partition as they lie there: offsets of their records, held to what fill made.
func (n *node) letters(id, source core.PartitionID) (offsets []int64) {
	n.t.Helper()
	for _, r := range n.readAll(id) {
		p, err := deadletter.ParseProvenance(r.Headers)
		if err != nil {
			n.t.Fatal(err)
		}
		at := n.owner(source).partitions[source]
		want := deadletter.Provenance{Topic: at.topic.Name, Partition: uint32(at.number), Offset: p.Offset, Timestamp: 1_000 + p.Offset, Group: "g", Attempts: 3,
			Reason: "rejected", Text: fmt.Sprint("why ", p.Offset)}
		if p.Partition != uint32(at.number) {
			continue
		}
		if p != want || string(r.Key) != fmt.Sprint("key ", p.Offset) || string(r.Value) != fmt.Sprint(p.Offset) || len(r.Headers) != 8 || string(r.Headers[0].Value) != "v" {
			n.t.Fatalf("a letter with key %q, value %q: %+v, not %+v", r.Key, r.Value, p, want)
		}
		offsets = append(offsets, p.Offset)
	}
	return offsets
}

func ascending(from, to int64) (list []int64) {
	for ; from < to; from++ {
		list = append(list, from)
	}
	return list
}

// Records go to the partition of the dead-letter topic that theirs has by its number, in the order in which they died,
// whichever shards the two are on.
func TestBurial(t *testing.T) {
	for _, codec := range []proto.Codec{proto.CodecNone, proto.CodecZstd} {
		n := newNode(t, 2)
		dead := n.create("dead", 2)
		topic := n.create("t", 4, "dead.letter.topic", "dead")
		orders := [][]int64{{3, 1, 2, 0}, ascending(0, 60), {59, 30, 29, 5}, {7}}
		mourners := make([]*mourner, 4)
		for i, p := range topic.Partitions {
			n.fill(p.ID, 6, 10, codec)
			mourners[i] = n.mourn(p.ID, queue.New(0, uint64(i)))
			mourners[i].die(orders[i]...)
		}
		n.settle()
		for i, d := range mourners {
			if len(d.ops) != len(orders[i]) {
				t.Errorf("partition %d: %d of %d records ended", i, len(d.ops), len(orders[i]))
			}
			if d.apply(); d.w.Dying() != 0 || d.w.Dead() != 0 {
				t.Errorf("partition %d: %d dying, %d dead", i, d.w.Dying(), d.w.Dead())
			}
			if got := n.letters(dead.Partitions[i%2].ID, topic.Partitions[i].ID); !slices.Equal(got, orders[i]) {
				t.Errorf("partition %d: letters of %v, died %v", i, got, orders[i])
			}
		}
		for i, m := range n.machines {
			if m.memory.parcels != 0 || m.memory.pending != 0 || m.burying.active != 0 || len(m.burying.letters) != 0 {
				t.Errorf("shard %d: %d bytes read, %d written, %d active, %d letters out", i, m.memory.parcels, m.memory.pending, m.burying.active, len(m.burying.letters))
			}
		}
	}
}

// A power cut between the letter and the window's word that it lies there: it is not written again, however many more have
// died since, and what the cut took along is.
func TestBurialIsOnceOverCrashes(t *testing.T) {
	for _, held := range []bool{false, true} { // held: the letters are not on the disk yet
		n := newNode(t, 2)
		dead := n.create("dead", 1, "durability", "none")
		topic := n.create("t", 2, "dead.letter.topic", "dead")
		var before []*mourner
		for i, p := range topic.Partitions {
			n.fill(p.ID, 3, 10, proto.CodecNone)
			before = append(before, n.mourn(p.ID, queue.New(0, uint64(i))))
		}
		n.held = held
		for _, d := range before {
			d.die(4, 2, 9)
		}
		if held {
			for i := range 20 {
				if i == 15 { // others need no disk there, and the cut takes this too
					other := n.produceRequest(dead.Partitions[0].ID, batchSpec{records: 1, producer: -1})
					n.send(&other)
				}
				n.turn()
			}
		} else {
			n.settle()
		}
		for _, d := range before {
			if want := map[bool]int{true: 0, false: 3}[held]; d.laidOps != want {
				t.Fatalf("held %v: %d records ended, want %d", held, d.laidOps, want)
			}
		}
		n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
		for i, p := range topic.Partitions {
			d := n.mourn(p.ID, before[i].w) // whose ops were lost
			d.die(8, 3)
			n.settle()
			if got := n.letters(dead.Partitions[0].ID, p.ID); !slices.Equal(got, []int64{4, 2, 9, 8, 3}) {
				t.Errorf("held %v: letters of %v", held, got)
			}
			if d.apply(); d.w.Dying() != 0 {
				t.Errorf("held %v: %d are dying still", held, d.w.Dying())
			}
		}
	}
}

// Ops that are lost with the log's tail are handed over again, and nothing is written for them.
func TestBurialAgain(t *testing.T) {
	n := newNode(t, 1)
	dead, topic := n.create("dead", 1), n.create("t", 1, "durability", "batch")
	n.admin(&proto.AlterTopicRequest{Name: "t", Set: []proto.TopicConfig{{Key: "dead.letter.topic", Value: "dead"}}})
	n.fill(topic.Partitions[0].ID, 1, 10, proto.CodecNone)
	d := n.mourn(topic.Partitions[0].ID, queue.New(0, 1))
	d.die(1, 2, 3)
	n.settle()
	d.ops = nil // lost
	d.b.again()
	n.settle()
	d.apply()
	if got := n.letters(dead.Partitions[0].ID, topic.Partitions[0].ID); !slices.Equal(got, []int64{1, 2, 3}) || d.w.Dying() != 0 {
		t.Errorf("letters of %v, %d dying", got, d.w.Dying())
	}
	if n.machines[0].stats.Duplicates != 1 {
		t.Errorf("%d repetitions were known for what they are", n.machines[0].stats.Duplicates)
	}
}

// wait lets time pass until the burials of a window are over.
func (n *node) wait(d *mourner, records int) {
	n.t.Helper()
	for range 100 {
		if d.laidOps >= records {
			return
		}
		n.clock.advance(time.Second)
		d.apply()
		n.settle()
	}
	n.t.Fatalf("%d of %d records ended", d.laidOps, records)
}

// While the dead-letter topic cannot take them, records wait and are tried again, less and less often; they arrive once.
func TestBurialIsTriedAgain(t *testing.T) {
	for what, c := range map[string]struct {
		fault   mem.Fault
		letters []int64
		failed  bool
	}{
		"full":        {mem.Fault{Kind: core.DiskAllocate, Path: "topics/*", Count: 4, Err: core.ErrDiskFull}, []int64{2, 0, 1}, true},
		"failed sync": {mem.Fault{Kind: core.DiskSync, Path: "topics/*", Count: 2}, []int64{2, 0, 1}, true},
		"failed read": {mem.Fault{Kind: core.DiskRead, Path: "topics/*", Count: 2}, []int64{2, 0, 1}, false}, // which the store repeats
		"unreadable":  {mem.Fault{Kind: core.DiskRead, Path: "topics/*", Count: 6}, []int64{0, 1}, false},    // until it takes it for damage
	} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t, 2)
			dead, topic := n.create("dead", 1), n.create("t", 1, "dead.letter.topic", "dead")
			id := topic.Partitions[0].ID
			for range 3 { // letters that large are written from where they lie
				a := n.one(n.produceRequest(id, batchSpec{records: 1, value: 300 << 10, producer: -1}))
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
			n.stop()
			n.crash(1, mem.CrashOptions{}) // nothing is in memory
			d := n.mourn(id, queue.New(0, 1))
			fs := n.disks[0].folder.fs
			fs.Inject(&c.fault)
			d.die(2, 0, 1)
			n.settle()
			n.wait(d, 3)
			if c.fault.Hits() == 0 {
				t.Error("the disk was not needed")
			}
			fs.ClearFaults()
			var got []int64
			for _, r := range n.readAll(dead.Partitions[0].ID) {
				p, err := deadletter.ParseProvenance(r.Headers)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, p.Offset)
			}
			if !slices.Equal(got, c.letters) {
				t.Errorf("letters of %v", got)
			}
			if failed := n.owner(id).stats.BurialsFailed; (failed > 0) != c.failed {
				t.Errorf("%d failures were counted", failed)
			}
			d.apply()
			if l, ok := d.w.Blocker(0); ok != (len(c.letters) < 3) || ok && (l.State != queue.Dead || l.Reason != queue.Damaged) {
				t.Errorf("left is %+v", l)
			}
		})
	}
}

// A partition of the dead-letter topic that cannot serve keeps nothing else up, and is asked with growing pauses.
func TestBurialBacksOff(t *testing.T) {
	n := newNode(t, 2)
	dead, topic := n.create("dead", 1), n.create("t", 1, "dead.letter.topic", "dead")
	id := topic.Partitions[0].ID
	n.fill(id, 3, 10, proto.CodecNone)
	grave := n.owner(dead.Partitions[0].ID).partitions[dead.Partitions[0].ID]
	grave.unavailable = core.ErrDiskFull
	d := n.mourn(id, queue.New(0, 1))
	d.die(7)
	m := n.owner(id)
	for range 120 {
		n.settle()
		n.clock.advance(time.Second)
	}
	if failed := m.stats.BurialsFailed; failed < 8 || failed > 14 { // 0.1 s, 0.2 s, ... 25.6 s, 30 s, 30 s
		t.Errorf("%d tries in two minutes", failed)
	}
	if d.laidOps != 0 || m.burying.active != 0 {
		t.Errorf("%d records ended, %d burials are active", d.laidOps, m.burying.active)
	}
	grave.unavailable = nil
	d.b.hurry() // as a change of the configuration does
	n.settle()
	if d.laidOps != 1 {
		t.Error("the record was not buried")
	}
}

// What cannot be buried stays in its partition, with the reason for that; its neighbours are buried.
func TestBurialOfWhatCannotBe(t *testing.T) {
	n := newNode(t, 2)
	dead := n.create("dead", 1, "max.message.bytes", "1KiB")
	topic := n.create("t", 1, "dead.letter.topic", "dead")
	id := topic.Partitions[0].ID
	n.fill(id, 3, 1, proto.CodecNone)
	hurt := n.batch(batchSpec{records: 1, value: 20, producer: -1})
	hurt[len(hurt)-2] ^= 1 // as a faulty producer or memory does
	for _, batch := range []proto.Batch{hurt, n.batch(batchSpec{records: 1, value: 4 << 10, producer: -1})} {
		if a := n.one(n.produceBatch(id, batch)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	d := n.mourn(id, queue.New(0, 1))
	d.die(4, 0, 3, 1, 2)
	n.wait(d, 5)
	d.apply()
	if got := n.letters(dead.Partitions[0].ID, id); !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("letters of %v", got)
	}
	want := map[int64]queue.Reason{3: queue.Damaged, 4: queue.TooLarge}
	for o, reason := range want {
		if l, ok := d.w.Blocker(o); !ok || l.Offset != o || l.State != queue.Dead || l.Reason != reason || l.Text != fmt.Sprint("why ", o) {
			t.Errorf("record %d: %+v", o, l)
		}
	}
	if d.w.Dead() != 2 || d.w.Dying() != 0 {
		t.Errorf("%d dead, %d dying", d.w.Dead(), d.w.Dying())
	}
}

// Records that are gone from the log are done.
func TestBurialOfWhatIsGone(t *testing.T) {
	n := newNode(t, 1, func(o *Options) {})
	dead, topic := n.create("dead", 1), n.create("t", 1)
	n.admin(&proto.AlterTopicRequest{Name: "t", Set: []proto.TopicConfig{{Key: "dead.letter.topic", Value: "dead"}}})
	id := topic.Partitions[0].ID
	n.fill(id, 3, 10, proto.CodecNone)
	if a := n.one(mail.Request{Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: 15}); a.Err != nil {
		t.Fatal(a.Err)
	}
	d := n.mourn(id, queue.New(0, 1))
	d.die(20, 5, 21, 14, 15)
	n.wait(d, 5)
	d.apply()
	if got := n.letters(dead.Partitions[0].ID, id); !slices.Equal(got, []int64{20, 21, 15}) || d.w.Dead() != 0 {
		t.Errorf("letters of %v, %d dead", got, d.w.Dead())
	}
}

// Without a dead-letter topic, as when it was unset meanwhile, records stay where they are with the reason that they had.
func TestBurialWithoutTopic(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("t", 1)
	n.fill(topic.Partitions[0].ID, 1, 10, proto.CodecNone)
	d := n.mourn(topic.Partitions[0].ID, queue.New(0, 1))
	d.die(3, 4)
	n.settle()
	d.apply()
	l, ok := d.w.Blocker(3)
	if !ok || l.State != queue.Dead || l.Reason != queue.Rejected || l.Text != "why 3" || d.w.Dead() != 2 || d.w.Dying() != 0 {
		t.Errorf("%+v, %d dead", l, d.w.Dead())
	}
}

// Thousands that die together are buried by hundreds, in turns in which the shard does other work too.
func TestBurialsGoTogether(t *testing.T) {
	n := newNode(t, 2)
	dead, topic := n.create("dead", 1), n.create("t", 2, "dead.letter.topic", "dead")
	const records = 5000
	var mourners []*mourner
	for i, p := range topic.Partitions {
		n.fill(p.ID, records/100, 100, proto.CodecLZ4)
		d := n.mourn(p.ID, queue.New(0, uint64(i)))
		d.die(ascending(0, records)...)
		mourners = append(mourners, d)
	}
	turns := 0
	for ; mourners[0].laidOps < records || mourners[1].laidOps < records; turns++ {
		n.turn()
		for _, m := range n.machines {
			if m.burying.active > burialsAtOnce {
				t.Fatalf("%d burials at once", m.burying.active)
			}
		}
		if turns > 10_000 {
			t.Fatal("they are never over")
		}
	}
	letters := n.machines[0].burying.number + n.machines[1].burying.number
	if most := uint64(2 * (records/burialRecordsMax + 1)); letters > most {
		t.Errorf("%d letters for %d records, want at most %d", letters, 2*records, most)
	}
	for _, p := range topic.Partitions {
		if got := n.letters(dead.Partitions[0].ID, p.ID); !slices.Equal(got, ascending(0, records)) {
			t.Errorf("%d letters", len(got))
		}
	}
}

// Many windows share a bounded number of burials.
func TestBurialsAtOnce(t *testing.T) {
	n := newNode(t, 1)
	n.create("dead", 1)
	topic := n.create("t", 1, "dead.letter.topic", "dead")
	id := topic.Partitions[0].ID
	n.fill(id, 1, 10, proto.CodecNone)
	n.held = true
	var mourners []*mourner
	for i := range 5 * burialsAtOnce {
		d := n.mourn(id, queue.New(0, uint64(i)))
		d.die(int64(i % 10))
		mourners = append(mourners, d)
	}
	for range 50 {
		n.turn()
	}
	m := n.machines[0]
	if m.burying.active != burialsAtOnce || m.burying.queue.Len() != 4*burialsAtOnce || m.Busy() {
		t.Errorf("%d active, %d queued, busy %v", m.burying.active, m.burying.queue.Len(), m.Busy())
	}
	mourners[0].b.end() // its letter is out
	mourners[len(mourners)-1].b.end()
	n.held = false
	n.settle()
	for i, d := range mourners {
		if want := map[bool]int{true: 0, false: 1}[i == 0 || i == len(mourners)-1]; d.laidOps != want {
			t.Errorf("window %d: %d ended", i, d.laidOps)
		}
	}
	if m.burying.active != 0 || m.memory.parcels != 0 {
		t.Errorf("%d active, %d bytes", m.burying.active, m.memory.parcels)
	}
}

// The topic of the letters is another one while they are on their way, and the first is deleted: they go to the new one.
func TestBurialMovesOn(t *testing.T) {
	n := newNode(t, 2)
	dead, other := n.create("dead", 1).Partitions[0].ID, n.create("other", 1).Partitions[0].ID
	id := n.create("t", 1, "dead.letter.topic", "dead").Partitions[0].ID
	n.fill(id, 1, 10, proto.CodecNone)
	d := n.mourn(id, queue.New(0, 1))
	n.held = true
	d.die(1, 2)
	for range 20 {
		n.turn()
	}
	if len(n.owner(dead).partitions[dead].graves) != 1 {
		t.Fatal("the letters are not where they should be")
	}
	n.owner(dead).partitions[dead].drop()
	n.held = false
	n.settle()
	if d.laidOps != 0 || d.b.state != burialWaiting {
		t.Fatalf("%d records ended, state %d", d.laidOps, d.b.state)
	}
	if a := n.admin(&proto.AlterTopicRequest{Name: "t", Set: []proto.TopicConfig{{Key: "dead.letter.topic", Value: "other"}}}); a.Err != nil {
		t.Fatal(a.Err)
	}
	d.b.hurry()
	n.settle()
	if got := n.letters(other, id); !slices.Equal(got, []int64{1, 2}) || d.laidOps != 2 {
		t.Errorf("letters of %v, %d ended", got, d.laidOps)
	}
}

// The topic of the records is deleted, whatever their burial is doing: nothing is held for it any more.
func TestBurialOfADeletedTopic(t *testing.T) {
	for turns := range 12 {
		n := newNode(t, 2)
		n.create("dead", 1)
		id := n.create("t", 1, "dead.letter.topic", "dead").Partitions[0].ID
		n.fill(id, 1, 10, proto.CodecZstd)
		n.stop()
		n.crash(1, mem.CrashOptions{}) // it is read from the disk
		d := n.mourn(id, queue.New(0, 1))
		d.die(1, 2)
		for range turns {
			n.turn()
		}
		ended := d.laidOps
		n.owner(id).partitions[id].drop()
		n.settle()
		m := d.b.partition.machine
		if d.laidOps != ended || m.burying.active != 0 || m.memory.parcels != 0 || len(m.burying.letters) != 0 {
			t.Errorf("after %d turns: %d records ended, %d active, %d bytes, %d letters", turns, d.laidOps, m.burying.active, m.memory.parcels, len(m.burying.letters))
		}
	}
}

// Ids of the broker's own producers are nobody else's.
func TestBurialProducersAreReserved(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	for _, producer := range []core.ProducerID{core.BurialProducerMin, burialProducer(id, "g", 1)} {
		a := n.one(n.produceRequest(id, batchSpec{records: 1, producer: int64(producer)}))
		if a.Err == nil || a.Err.Code != proto.CodeUnknownProducer || !strings.Contains(a.Err.Text, "broker's own") {
			t.Errorf("producer %d: %+v", producer, a.Err)
		}
	}
	if a := n.one(n.produceRequest(id, batchSpec{records: 1, producer: int64(core.BurialProducerMin) - 1})); a.Err != nil {
		t.Error(a.Err)
	}
	seen := map[core.ProducerID]bool{}
	for partition := range core.PartitionID(20) {
		for _, group := range []string{"", "a", "b"} {
			for identity := range uint64(20) {
				seen[burialProducer(partition, group, identity)] = true
			}
		}
	}
	if len(seen) != 20*3*20 {
		t.Errorf("%d ids for %d windows", len(seen), 20*3*20)
	}
}

// What members do, all the way: records that they reject or fail with reach the dead-letter topic on another shard once,
// through power cuts at any turn, and everything in the window ends.
func TestQueuesBuryThroughCrashes(t *testing.T) {
	for cut := range 24 {
		n := newNode(t, 2)
		dead := n.create("dead", 3)
		topic := n.create("jobs", 2, "dead.letter.topic", "dead", "queue.max.deliveries", "2")
		id, grave := topic.Partitions[1].ID, dead.Partitions[1].ID
		n.fill(id, 4, 10, proto.CodecNone)
		w := n.worker(id, 1)
		w.lease(0)
		if got := w.credit(40); len(got) != 40 {
			t.Fatalf("%d records", len(got))
		}
		reject := outcome(proto.SettlementReject, 1, 3, 20)
		reject.Reason = "bad"
		r := w.request(mail.RequestSettle)
		r.Body = &mail.Settle{Group: "g", Member: w.name, Ranges: []proto.SettledRange{reject, outcome(proto.SettlementAck, 1, 0, 3)}}
		n.send(&r)
		for range cut {
			n.turn()
		}
		powerCut(n)
		n.settle()
		w.got = nil
		w.lease(-1)
		for _, d := range w.credit(100) { // what was not rejected durably is rejected now
			w.settles(outcome(proto.SettlementReject, d.attempt, d.offset, d.offset+1))
		}
		for range 5 {
			n.clock.advance(time.Second)
			w.settle()
		}
		seen := map[int64]int{}
		for _, r := range n.readAll(grave) {
			p, err := deadletter.ParseProvenance(r.Headers)
			if err != nil || p.Topic != "jobs" || p.Partition != 1 || p.Group != "g" || string(r.Value) != fmt.Sprint(p.Offset) {
				t.Fatalf("%+v, %v", p, err)
			}
			seen[p.Offset]++
		}
		for o := range int64(40) {
			if seen[o] > 1 || o >= 3 && seen[o] != 1 {
				t.Errorf("cut after %d turns: %d letters of record %d", cut, seen[o], o)
			}
		}
		w.wantStands(40, 40, 0, 0, 0, 0)
	}
}

// A record of the largest size that its topic takes goes where there is room for its provenance, from there on without
// growing, and stays at last where there is none: nothing goes round.
func TestLargestRecordsDie(t *testing.T) {
	n := newNode(t, 2)
	tight := n.create("tight", 1, "max.message.bytes", "33KiB").Partitions[0].ID
	roomy := n.create("roomy", 1, "max.message.bytes", "64KiB", "dead.letter.topic", "tight", "queue.max.deliveries", "1").Partitions[0].ID
	first := n.create("first", 1, "max.message.bytes", "33KiB", "dead.letter.topic", "roomy", "queue.max.deliveries", "1").Partitions[0].ID
	batch := n.batch(batchSpec{records: 1, value: 33<<10 - proto.BatchHeaderBytes - 16, producer: -1})
	if spare := 33<<10 - len(batch); spare < 0 || spare > 8 {
		t.Fatalf("%d bytes are left", spare)
	}
	if a := n.one(n.produceBatch(first, batch)); a.Err != nil {
		t.Fatal(a.Err)
	}
	for i, id := range []core.PartitionID{first, roomy} {
		w := n.worker(id, uint32(i+1))
		w.lease(0)
		wantRecords(t, "the largest", w.credit(1), records(1, 0, 1))
		w.settles(outcome(proto.SettlementReject, 1, 0, 1))
		for range 3 {
			n.clock.advance(time.Second)
			w.settle()
		}
		if id == first {
			w.wantStands(1, 1, 0, 0, 0, 0)
		} else {
			w.wantStands(0, 1, 0, 0, 0, 1) // dead, where it can be seen
		}
	}
	for id, want := range map[core.PartitionID]int{first: 1, roomy: 1, tight: 0} {
		if got := n.readAll(id); len(got) != want {
			t.Errorf("partition %d has %d records", id, len(got))
		}
	}
}

// Records that die and are gone from the log are ended many at a time: retention may take a whole window.
func TestTrimmedBurialsGoTogether(t *testing.T) {
	n := newNode(t, 1)
	n.create("dead", 1)
	id := n.create("t", 1).Partitions[0].ID
	n.admin(&proto.AlterTopicRequest{Name: "t", Set: []proto.TopicConfig{{Key: "dead.letter.topic", Value: "dead"}}})
	produceN(n, id, 10, 100, 10)
	if a := n.one(mail.Request{Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: 1000}); a.Err != nil {
		t.Fatal(a.Err)
	}
	d := n.mourn(id, queue.New(0, 1))
	asked := 0
	d.b.window = &askedMourner{d, &asked}
	d.w.Apply(&queue.Op{Kind: queue.Die, Base: 0, Next: 1000, Reason: queue.Nacked}, 0)
	d.b.stir()
	n.settle()
	if d.laidOps != 1000 && len(d.ops) != 1 || asked > 1000/burialRecordsMax+2 {
		t.Errorf("%d outcomes, asked %d times", d.laidOps, asked)
	}
	d.apply()
	if d.w.Low() != 1000 {
		t.Errorf("low %d", d.w.Low())
	}
}

type askedMourner struct {
	*mourner
	asked *int
}

func (a *askedMourner) dying(list []queue.Burial, number uint64, most int) []queue.Burial {
	*a.asked++
	return a.mourner.dying(list, number, most)
}

// A record that was found not to fit comes back, because the power went before that was on the disk, and fits now. Letters of
// records behind it must not make it pass for buried.
func TestBurialOfWhatCouldNotBe(t *testing.T) {
	n := newNode(t, 2)
	dead := n.create("dead", 1, "max.message.bytes", "1KiB").Partitions[0].ID
	id := n.create("t", 1, "dead.letter.topic", "dead").Partitions[0].ID
	for _, value := range []int{10, 4 << 10, 10} {
		if a := n.one(n.produceRequest(id, batchSpec{records: 1, value: value, producer: -1})); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	before := n.mourn(id, queue.New(0, 1))
	before.die(0, 1, 2)
	n.settle()
	if before.laidOps != 2 || before.ops[1].Kind != queue.Bury {
		t.Fatalf("ended are %+v", before.ops)
	}
	powerCut(n)
	if a := n.admin(&proto.AlterTopicRequest{Name: "dead", Set: []proto.TopicConfig{{Key: "max.message.bytes", Value: "1MiB"}}}); a.Err != nil {
		t.Fatal(a.Err)
	}
	d := n.mourn(id, before.w)
	d.b.stir()
	n.wait(d, 3)
	var got []int64
	for _, r := range n.readAll(dead) {
		p, err := deadletter.ParseProvenance(r.Headers)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p.Offset)
	}
	if !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("letters of %v", got)
	}
}
