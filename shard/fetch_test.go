package shard

import (
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

func produceN(n *node, id core.PartitionID, batches, records, value int) {
	n.t.Helper()
	for range batches {
		if a := n.one(n.produceRequest(id, batchSpec{records: records, value: value, producer: -1})); a.Err != nil {
			n.t.Fatal(a.Err)
		}
	}
}

func TestFetchReadsWhatWasProduced(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 3, 2, 10)
	a := n.one(n.fetchRequest(id, 0))
	records := parcelRecords(t, a.Parcel)
	if len(records) != 6 || a.More || a.HighWatermark != 6 || a.LogStartOffset != 0 || a.LogEndOffset != 6 {
		t.Fatalf("%d records, answer %+v", len(records), a)
	}
	for i, r := range records {
		if r.Offset != int64(i) || len(r.Value) != 10 || string(r.Key) != []string{"key-0", "key-1"}[i%2] {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	n.giveBack(id, a.Parcel)
	n.settle()
	m := n.machines[0]
	if m.memory.parcels != 0 || len(m.peers) != 0 || m.wheel.armed != 0 {
		t.Errorf("left behind: %d bytes, %d peers, %d timers", m.memory.parcels, len(m.peers), m.wheel.armed)
	}
	// From the middle of a batch: the whole batch comes.
	a = n.one(n.fetchRequest(id, 3))
	if records = parcelRecords(t, a.Parcel); len(records) != 4 || records[0].Offset != 2 {
		t.Errorf("from 3: %d records", len(records))
	}
}

func TestFetchHidesWhatIsNotDurable(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 1)
	n.held = true
	r := n.produceRequest(id, batchSpec{records: 1, producer: -1})
	n.send(&r)
	f := n.fetchRequest(id, 1)
	n.send(&f)
	n.turn()
	n.turn()
	answered := false
	for _, a := range n.answers() {
		if answered = answered || a.Kind == mail.AnswerFetch; a.Kind == mail.AnswerFetch && (a.Parcel != nil || a.HighWatermark != 1) {
			t.Errorf("shown before it is durable: %+v", a)
		}
	}
	if !answered {
		t.Error("the fetch was not answered")
	}
}

func TestFetchWaitsForData(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	f := n.fetchRequest(id, 0)
	f.BytesMin, f.Wait = 1, int64(time.Second)
	if got := n.ask(f); len(got) != 0 {
		t.Fatalf("answered at once: %+v", got)
	}
	r := n.produceRequest(id, batchSpec{records: 2, producer: -1})
	got := n.ask(r)
	if len(got) != 2 || got[0].Kind != mail.AnswerProduce || got[1].Kind != mail.AnswerFetch || len(parcelRecords(t, got[1].Parcel)) != 2 {
		t.Fatalf("answers %+v", got)
	}
	if n.machines[0].wheel.armed != 0 || len(n.machines[0].partitions[id].waiters) != 0 {
		t.Error("the waiter is still there")
	}
}

func TestFetchWaitsForEnoughBytes(t *testing.T) {
	for _, level := range []string{"sync", "batch", "none"} {
		n := newNode(t, 1)
		id := n.create("t", 1, "durability", level).Partitions[0].ID
		size := len(n.batch(batchSpec{records: 1, value: 100, producer: -1}))
		f := n.fetchRequest(id, 0)
		f.BytesMin, f.Wait = uint32(3*size), int64(time.Second)
		n.send(&f)
		n.settle()
		store := n.machines[0].store
		before := store.Stats().ReadsCached
		for i := range 3 {
			if reads := store.Stats().ReadsCached - before; reads > 0 && level != "none" {
				t.Errorf("%s: read %d times for too few bytes", level, reads)
			}
			got := n.ask(n.produceRequest(id, batchSpec{records: 1, value: 100, producer: -1}))
			if want := map[bool]int{false: 1, true: 2}[i == 2]; len(got) != want {
				t.Errorf("%s: %d answers after batch %d", level, len(got), i)
			}
		}
	}
}

func TestFetchTimesOutWithWhatIsThere(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 10)
	f, empty := n.fetchRequest(id, 0), n.fetchRequest(id, 1)
	f.BytesMin, f.Wait = 1000, int64(100*time.Millisecond)
	empty.BytesMin, empty.Wait = 1, int64(100*time.Millisecond)
	n.send(&f)
	n.send(&empty)
	n.settle()
	n.clock.advance(90 * time.Millisecond)
	n.settle()
	if got := n.answers(); len(got) != 0 {
		t.Fatalf("too early: %+v", got)
	}
	n.clock.advance(15 * time.Millisecond)
	n.settle()
	got := n.answers()
	if len(got) != 2 {
		t.Fatalf("answers %+v", got)
	}
	for _, a := range got {
		if want := map[uint64]int{f.ID: 1, empty.ID: 0}[a.ID]; len(parcelRecords(t, a.Parcel)) != want || a.Err != nil {
			t.Errorf("answer %+v, want %d records", a, want)
		}
	}
}

func TestFetchComesInChunks(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 6, 1, 400<<10)
	f := n.fetchRequest(id, 0)
	f.BytesMax = 2 << 20
	n.send(&f)
	n.settle()
	var total, chunks int
	next := int64(0)
	for more := true; more; {
		got := n.answers()
		if len(got) != 1 || got[0].ID != f.ID {
			t.Fatalf("chunk %d: answers %+v", chunks, got)
		}
		more = got[0].More
		if got[0].Parcel == nil { // the next batch did not fit what was left
			break
		}
		if got[0].Parcel.Bytes > core.AnswerChunkBytesMax {
			t.Errorf("a chunk of %d bytes", got[0].Parcel.Bytes)
		}
		for _, r := range parcelRecords(t, got[0].Parcel) {
			if r.Offset != next {
				t.Errorf("offset %d, want %d", r.Offset, next)
			}
			next++
		}
		total += got[0].Parcel.Bytes
		chunks++
		n.settle()
		if more && len(n.answers()) != 0 {
			t.Fatal("the next chunk came before the last one had left")
		}
		n.giveBack(id, got[0].Parcel)
		n.settle()
	}
	if chunks < 2 || total > 2<<20 || next < 4 {
		t.Errorf("%d chunks, %d bytes, %d records", chunks, total, next)
	}
	if m := n.machines[0]; m.memory.parcels != 0 || len(m.peers) != 0 {
		t.Errorf("left behind: %d bytes, %d peers", m.memory.parcels, len(m.peers))
	}
}

func TestFetchLimits(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 4, 3, 2000)
	f := n.fetchRequest(id, 0)
	f.BytesMax = 100
	if a := n.one(f); len(parcelRecords(t, a.Parcel)) != 3 || a.More {
		t.Errorf("a batch above the limit must come alone: %+v", a)
	}
	f = n.fetchRequest(id, 0)
	f.RecordsMax = 7
	total := 0
	for got := n.ask(f); len(got) == 1; got = n.answers() {
		total += len(parcelRecords(t, got[0].Parcel))
		if !got[0].More {
			break
		}
		n.giveBack(id, got[0].Parcel)
		n.settle()
	}
	if total != 6 {
		t.Errorf("%d records with a limit of 7", total)
	}
	f = n.fetchRequest(id, 0)
	f.RecordsMax = 1
	if a := n.one(f); len(parcelRecords(t, a.Parcel)) != 3 || a.More {
		t.Errorf("a batch above the limit must come whole: %+v", a)
	}
}

func TestFetchOutOfRange(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 5, 1, 10)
	if a := n.one(mail.Request{Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: 2}); a.Err != nil || a.LogStartOffset != 2 {
		t.Fatalf("trim: %+v", a)
	}
	for _, offset := range []core.Offset{-1, 1, 6, 1 << 40} {
		a := n.one(n.fetchRequest(id, offset))
		if a.Err == nil || a.Err.Code != proto.CodeOffsetOutOfRange || a.Err.Offsets == nil || *a.Err.Offsets != (proto.OffsetRange{Earliest: 2, Latest: 5}) {
			t.Errorf("offset %d: %+v", offset, a.Err)
		}
	}
	if a := n.one(n.fetchRequest(id, 5)); a.Err != nil || a.Parcel != nil {
		t.Errorf("the end itself: %+v", a)
	}
	f := n.fetchRequest(id, 5)
	f.LastEpoch = 7 // read from a log that has gone
	if a := n.one(f); a.Err == nil || a.Err.Code != proto.CodeLogTruncated || a.Err.Truncation == nil || a.Err.Truncation.EndOffset != 5 {
		t.Errorf("an epoch that never was: %+v", a.Err)
	}
}

func TestDisconnectForgetsWaiters(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 4, 1, 400<<10)
	conn := mail.ConnRef{Slot: 3, Serial: 1}
	waiting, chunked := n.fetchRequest(id, 4), n.fetchRequest(id, 0)
	waiting.Conn, waiting.BytesMin, waiting.Wait = conn, 1, int64(time.Minute)
	chunked.Conn = conn
	n.send(&waiting)
	n.send(&chunked)
	subscribe := mail.Request{Kind: mail.RequestSubscribe, Partition: id, LeaderEpoch: -1, LastEpoch: -1, Offset: 4, Conn: conn}
	n.send(&subscribe)
	n.settle()
	got := n.answers()
	queued := n.fetchRequest(id, 0) // still in the machine's queue when the connection goes
	queued.Conn = conn
	n.send(&queued)
	n.send(&mail.Request{Kind: mail.RequestDisconnect, Conn: conn})
	n.settle()
	for _, a := range got {
		if a.Parcel != nil {
			n.giveBack(id, a.Parcel)
		}
	}
	n.settle()
	if got := n.answers(); len(got) != 0 {
		t.Errorf("answers for a closed connection: %+v", got)
	}
	m := n.machines[0]
	p := m.partitions[id]
	if len(m.peers) != 0 || len(p.waiters) != 0 || len(p.shares) != 0 || m.memory.parcels != 0 || m.wheel.armed != 0 {
		t.Errorf("left behind: %d peers, %d waiters, %d shares, %d bytes, %d timers", len(m.peers), len(p.waiters), len(p.shares), m.memory.parcels, m.wheel.armed)
	}
}

// Without memory for answers a fetch waits, and is served when parcels return.
func TestFetchWaitsForMemory(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.MemoryBytes = 4 << 20 })
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 900<<10)
	var out []mail.Answer
	for i := range 4 {
		f := n.fetchRequest(id, 0)
		f.Conn.Slot = uint32(i)
		f.BytesMax = 1 << 20
		n.send(&f)
		n.settle()
		out = append(out, n.answers()...)
	}
	if len(out) != 2 || n.machines[0].stats.Starved == 0 {
		t.Fatalf("%d answers with memory for two, starved %d", len(out), n.machines[0].stats.Starved)
	}
	n.giveBack(id, out[0].Parcel)
	n.settle()
	if more := n.answers(); len(more) != 1 {
		t.Fatalf("%d answers after one parcel came back", len(more))
	}
	n.clock.advance(2 * time.Second)
	n.settle()
	if more := n.answers(); len(more) != 1 || more[0].Err == nil || more[0].Err.Code != proto.CodeOverloaded {
		t.Fatalf("the last one: %+v", more)
	}
}

// A connection that does not take its answers keeps an eighth of the memory at
// most; others go on.
func TestOneConnectionCannotTakeAllMemory(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.MemoryBytes = 32 << 20 })
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 900<<10)
	for range 30 {
		f := n.fetchRequest(id, 0)
		f.BytesMax = 1 << 20
		n.send(&f)
	}
	n.settle()
	if got := n.answers(); len(got) != 4 { // 4 MiB hold four answers of 900 KiB
		t.Errorf("%d answers for one connection", len(got))
	}
	f := n.fetchRequest(id, 0)
	f.Conn.Slot, f.BytesMax = 9, 1<<20
	if a := n.one(f); a.Parcel == nil {
		t.Errorf("the other connection: %+v", a)
	}
}

func TestListOffsetsAndDescribe(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 3, 2, 10)
	look := func(kind mail.Lookup) mail.Answer {
		return n.one(mail.Request{Kind: mail.RequestListOffset, Partition: id, LeaderEpoch: -1, Lookup: kind})
	}
	if a := look(mail.LookupEarliest); a.Offset != 0 || a.LeaderEpoch < 1 {
		t.Errorf("earliest %+v", a)
	}
	if a := look(mail.LookupLatest); a.Offset != 6 || a.Timestamp != -1 {
		t.Errorf("latest %+v", a)
	}
	if a := n.one(mail.Request{Kind: mail.RequestDescribe, Partition: id, LeaderEpoch: -1}); a.LogEndOffset != 6 || a.HighWatermark != 6 || a.SizeBytes == 0 {
		t.Errorf("describe %+v", a)
	}
	if a := n.one(mail.Request{Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: 7}); a.Err == nil || a.Err.Code != proto.CodeOffsetOutOfRange {
		t.Errorf("trim beyond the end: %+v", a)
	}
	if a := n.one(mail.Request{Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: -1}); a.Err != nil || a.LogStartOffset != 6 {
		t.Errorf("trim to the end: %+v", a)
	}
	produceN(n, id, 1, 1, 1) // the next offset is still the next
	if a := look(mail.LookupLatest); a.Offset != 7 {
		t.Errorf("latest after an emptied log: %+v", a)
	}
}

// Offsets by time are exact inside batches, compressed ones included.
func TestLookupTimesOut(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 10)
	n.send(&mail.Request{Kind: mail.RequestListOffset, Partition: id, LeaderEpoch: -1, Lookup: mail.LookupTime, Wait: int64(100 * time.Millisecond)})
	n.clock.advance(110 * time.Millisecond)
	n.machines[0].Tick()
	if got := n.answers(); len(got) != 1 || got[0].Err == nil || got[0].Err.Code != proto.CodeTimedOut {
		t.Fatalf("answers %+v", got)
	}
	n.settle()
	if got := n.answers(); len(got) != 0 || n.machines[0].lookups != 0 || n.machines[0].wheel.armed != 0 {
		t.Errorf("answers %+v, %d look-ups", got, n.machines[0].lookups)
	}
}

func TestOffsetsByTime(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	base := n.clock.wall/int64(time.Millisecond) - 1_000_000
	var b proto.BatchBuilder
	for i, codec := range []proto.Codec{proto.CodecNone, proto.CodecZstd, proto.CodecNone} {
		b.Reset(codec)
		for j := range 10 { // times 0, 10, ... 90, then 100, ...
			if err := b.Append(&proto.Record{Timestamp: base + int64(100*i+10*j), Value: make([]byte, 100)}); err != nil {
				t.Fatal(err)
			}
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if a := n.one(n.produceBatch(id, batch)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	look := func(at int64) mail.Answer {
		return n.one(mail.Request{Kind: mail.RequestListOffset, Partition: id, LeaderEpoch: -1, Lookup: mail.LookupTime, Timestamp: at})
	}
	for _, c := range []struct {
		at, timestamp int64
		offset        core.Offset
	}{{-5, 0, 0}, {0, 0, 0}, {1, 10, 1}, {95, 100, 10}, {155, 160, 16}, {290, 290, 29}} {
		if a := look(base + c.at); a.Err != nil || a.Offset != c.offset || a.Timestamp != base+c.timestamp || a.LeaderEpoch < 1 {
			t.Errorf("time %d: %+v, want offset %d", c.at, a, c.offset)
		}
	}
	if a := look(base + 291); a.Err != nil || a.Offset != -1 || a.Timestamp != -1 || a.LeaderEpoch != -1 {
		t.Errorf("behind the last: %+v", a)
	}
	a := n.one(mail.Request{Kind: mail.RequestListOffset, Partition: id, LeaderEpoch: -1, Lookup: mail.LookupMaxTimestamp})
	if a.Offset != 29 || a.Timestamp != base+290 {
		t.Errorf("max timestamp: %+v", a)
	}
	if n.machines[0].lookups != 0 {
		t.Errorf("%d look-ups left", n.machines[0].lookups)
	}
}

// A raised durability hides what was written and is not synced yet. Who waits for
// it meanwhile is woken by the sync, although that shows nothing but what was
// shown before.
func TestFetchWaitsThroughARaisedDurability(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("t", 1, "durability", "batch", "flush.ms", "60000")
	id := topic.Partitions[0].ID
	produceN(n, id, 2, 1, 10) // the first of a term is synced at any durability
	p := n.machines[0].partitions[id]
	if p.highWatermark() != 2 || p.log.DurableOffset() != 1 {
		t.Fatalf("high watermark %d, durable %d", p.highWatermark(), p.log.DurableOffset())
	}
	n.held = true
	raised := *topic
	raised.Config.Durability = core.DurabilitySync
	p.configure(&raised)
	n.turn()
	f := n.fetchRequest(id, 1)
	f.BytesMin, f.Wait = 1, int64(time.Minute)
	n.send(&f)
	n.turn()
	if got := n.answers(); len(got) != 0 {
		t.Fatalf("answered before the sync: %+v", got)
	}
	n.held = false
	n.settle()
	if got := n.answers(); len(got) != 1 || len(parcelRecords(t, got[0].Parcel)) != 1 {
		t.Fatalf("after the sync: %+v", got)
	}
}

// A read that had begun before the durability was raised shows no more than one that
// begins afterwards. Its waiting and its memory end like those of any other.
func TestReadsUnderWayHideWhatARaisedDurabilityHides(t *testing.T) {
	for _, way := range []string{"fetch", "push"} {
		n := newNode(t, 1)
		topic := n.create("t", 1, "durability", "batch", "flush.ms", "60000")
		id := topic.Partitions[0].ID
		produceN(n, id, 2, 1, 10) // the first of a term is synced at any durability
		m := n.machines[0]
		p := m.partitions[id]
		raised := *topic
		raised.Config.Durability = core.DurabilitySync
		n.held = true
		var read *segment.Read
		if way == "fetch" {
			r := n.fetchRequest(id, 0)
			m.Receive(&r)
			f := m.runnable.Pop()
			f.queued = false
			f.begin(1000)
			read = &f.read
		} else {
			n.subscribe(id, 0)
			m.Receive(&mail.Request{Kind: mail.RequestCredit, ID: testSubscription, Bytes: 1000})
			m.pushable.Pop().queued = false
			read = &p.shares[0].begin(1000).read
			p.shares[0].subscription.ready.Pop()
		}
		if !m.store.Read(read) || read.Next != 2 {
			t.Fatalf("%s: read up to %d", way, read.Next)
		}
		p.configure(&raised)
		read.Owner.ReadDone(read)
		n.turn()
		got := n.answers()
		if len(got) != 1 || got[0].Parcel == nil || len(parcelRecords(t, got[0].Parcel)) != 1 || got[0].HighWatermark != 1 {
			t.Fatalf("%s before the sync: %+v", way, got)
		}
		n.giveBack(id, got[0].Parcel)
		n.held = false
		n.settle()
		if got = n.answers(); (len(got) == 1) != (way == "push") {
			t.Fatalf("%s after the sync: %+v", way, got)
		}
		for _, a := range got {
			n.giveBack(id, a.Parcel)
		}
		if n.settle(); m.memory.parcels != 0 {
			t.Errorf("%s: %d bytes are held", way, m.memory.parcels)
		}
	}
}

// Requests of a connection that takes nothing must not stand before those of the
// others in the queue for memory: only so many try again when a parcel returns.
func TestStuckConnectionDoesNotStarveOthers(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.MemoryBytes = 32 << 20 })
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 900<<10)
	send := func(slot uint32, count int) {
		for range count {
			f := n.fetchRequest(id, 0)
			f.Conn.Slot, f.BytesMax, f.Wait = slot, 1<<20, int64(time.Minute)
			n.send(&f)
		}
		n.settle()
	}
	send(1, 100)
	if got := n.answers(); len(got) != 4 {
		t.Fatalf("%d answers for the stuck connection", len(got))
	}
	send(2, 6)
	out := n.answers()
	for served := len(out); len(out) > 0; {
		n.giveBack(id, out[0].Parcel)
		n.settle()
		more := n.answers()
		out = append(out[1:], more...)
		if served += len(more); len(out) == 0 && served != 6 {
			t.Errorf("%d of 6 fetches were served", served)
		}
	}
}

// The same for pushes.
func TestStuckSubscriptionsDoNotStarveOthers(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.MemoryBytes = 32 << 20 })
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 8, 1, 900<<10)
	m := n.machines[0]
	subscribe := func(slot uint32, subscription uint64) {
		conn := mail.ConnRef{Slot: slot}
		m.Receive(&mail.Request{Kind: mail.RequestSubscribe, Conn: conn, ID: subscription, Partition: id, LeaderEpoch: -1, LastEpoch: -1})
		m.Receive(&mail.Request{Kind: mail.RequestCredit, Conn: conn, ID: subscription, Bytes: 64 << 20})
	}
	for subscription := range uint64(100) {
		subscribe(1, subscription)
	}
	n.settle()
	n.answers()
	subscribe(2, 1)
	subscribe(2, 2)
	n.settle()
	pushed := 0
	for out := n.answers(); len(out) > 0; out = out[1:] {
		if out[0].Parcel == nil {
			continue
		}
		pushed++
		n.giveBack(id, out[0].Parcel)
		n.settle()
		out = append(out, n.answers()...)
	}
	if pushed != 16 {
		t.Errorf("%d of 16 batches were pushed to the connection that takes them", pushed)
	}
}

// Who waits for the shard's memory goes on once there is room, whoever made it,
// and a machine whose memory is full comes to rest.
func TestMemoryThatReturnsIsUsedByAll(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.MemoryBytes = 16 << 20 })
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 900<<10)
	m := n.machines[0]
	for slot := range uint32(60) {
		f := n.fetchRequest(id, 0)
		f.Conn.Slot, f.BytesMax, f.Wait = slot, 1<<20, int64(time.Minute)
		n.send(&f)
		conn := mail.ConnRef{Slot: slot}
		m.Receive(&mail.Request{Kind: mail.RequestSubscribe, Conn: conn, ID: 1, Partition: id, LeaderEpoch: -1, LastEpoch: -1})
		m.Receive(&mail.Request{Kind: mail.RequestCredit, Conn: conn, ID: 1, Bytes: 1 << 20})
	}
	n.settle()
	fetched, pushed := 0, 0
	for out := n.answers(); len(out) > 0; out = out[1:] {
		switch {
		case out[0].Kind == mail.AnswerFetch && out[0].Parcel != nil:
			fetched++
		case out[0].Kind == mail.AnswerDeliver:
			pushed++
		default:
			continue
		}
		n.giveBack(id, out[0].Parcel)
		n.settle()
		out = append(out, n.answers()...)
	}
	if fetched != 60 || pushed != 60 || m.memory.parcels != 0 {
		t.Errorf("%d fetches and %d pushes of 60 each, %d bytes held", fetched, pushed, m.memory.parcels)
	}
}
