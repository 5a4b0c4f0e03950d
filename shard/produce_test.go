package shard

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

func TestProduceIsAckedWhenDurable(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 1) // the epoch is open: its first frame is waited for whatever the durability
	n.held = true
	r := n.produceRequest(id, batchSpec{records: 3, value: 10, producer: -1})
	n.send(&r)
	n.turn()
	n.turn()
	if got := n.answers(); len(got) != 0 {
		t.Fatalf("acked before the disk was done: %+v", got)
	}
	n.held = false
	n.settle()
	got := n.answers()
	if len(got) == 1 && (got[0].Kind != mail.AnswerProduce || got[0].Durability != core.DurabilitySync || got[0].Offset != 1 || got[0].Timestamp != -1) {
		t.Fatalf("answer %+v", got)
	}
	a := n.one(n.produceRequest(id, batchSpec{records: 1, producer: -1}))
	if a.Offset != 4 || a.LogEndOffset != 5 || a.Duplicate {
		t.Errorf("second answer %+v", a)
	}
}

// A batch that was appended while the group before it was being synced is not
// acked with that group.
func TestAckWaitsForItsOwnSync(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	produceN(n, id, 1, 1, 1) // the epoch is open
	m := n.machines[0]
	first, second := n.produceRequest(id, batchSpec{records: 1, producer: -1}), n.produceRequest(id, batchSpec{records: 1, producer: -1})
	n.send(&first)
	m.Flush()
	n.send(&second)
	for range 100 {
		n.disks[0].reap(m)
		m.settle()
		if got := n.answers(); len(got) > 0 {
			if len(got) != 1 || got[0].ID != first.ID {
				t.Fatalf("acked together: %+v", got)
			}
			return
		}
	}
	t.Fatal("the first batch is never acked")
}

func TestAckNamesTheDurability(t *testing.T) {
	n := newNode(t, 1)
	for _, level := range []core.Durability{core.DurabilityNone, core.DurabilityBatch, core.DurabilitySync} {
		id := n.create("t-"+level.String(), 1, "durability", level.String()).Partitions[0].ID
		if a := n.one(n.produceRequest(id, batchSpec{records: 1, producer: -1})); a.Err != nil || a.Durability != level {
			t.Errorf("%v: %+v", level, a)
		}
	}
}

func TestAcksNoneHasNoAnswerButARefusal(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	r := n.produceRequest(id, batchSpec{records: 1, producer: -1})
	r.Acks = acksNone
	if got := n.ask(r); len(got) != 0 {
		t.Fatalf("answers %+v", got)
	}
	if p := n.machines[0].partitions[id]; p.log.EndOffset() != 1 || p.pendingBytes != 0 {
		t.Errorf("end %d, %d bytes pending", p.log.EndOffset(), p.pendingBytes)
	}
	r = n.produceRequest(id, batchSpec{records: 1, value: 3 << 19, producer: -1})
	r.Acks = acksNone
	if a := n.one(r); a.Err == nil || a.Err.Code != proto.CodeBatchTooLarge {
		t.Errorf("answer %+v", a)
	}
}

func TestProduceRefuses(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	compacted := n.create("c", 1, "cleanup.policy", "compact").Partitions[0].ID
	now := n.clock.wall / int64(time.Millisecond)
	for _, c := range []struct {
		name      string
		partition core.PartitionID
		batch     batchSpec
		epoch     core.LeaderEpoch
		code      proto.Code
		says      string
	}{
		{"unknown partition", 999, batchSpec{records: 1}, -1, proto.CodeUnknownTopic, "999"},
		{"too large", id, batchSpec{records: 1, value: 1 << 20}, -1, proto.CodeBatchTooLarge, "max.message.bytes"},
		{"too many records", id, batchSpec{records: 10_001}, -1, proto.CodeInvalidRequest, "10000"},
		{"an hour and a bit ahead", id, batchSpec{records: 1, timestamp: now + 3_600_001}, -1, proto.CodeInvalidTimestamp, "3600000"},
		{"passed epoch", id, batchSpec{records: 1}, 0, proto.CodeFencedLeaderEpoch, "epoch 0"},
		{"coming epoch", id, batchSpec{records: 1}, 99, proto.CodeUnknownLeaderEpoch, "99"},
		{"no key", compacted, batchSpec{records: 2, noKeys: true}, -1, proto.CodeInvalidRequest, "record 0"},
		{"no key, compressed", compacted, batchSpec{records: 200, noKeys: true, codec: proto.CodecGzip}, -1, proto.CodeInvalidRequest, "record 0"},
	} {
		c.batch.producer = -1
		r := n.produceRequest(c.partition, c.batch)
		r.LeaderEpoch = c.epoch
		a := n.one(r)
		if a.Kind != mail.AnswerError || a.Err.Code != c.code || !strings.Contains(a.Err.Text, c.says) {
			t.Errorf("%s: %v", c.name, a.Err)
		}
	}
	for _, p := range n.machines[0].partitions {
		if p.log.EndOffset() != 0 || p.pendingBytes != 0 {
			t.Errorf("something of a refused batch is left: end %d, %d bytes", p.log.EndOffset(), p.pendingBytes)
		}
	}
	if n.machines[0].memory.pending != 0 {
		t.Errorf("%d bytes pending", n.machines[0].memory.pending)
	}
}

// A record in seconds instead of milliseconds is old and kept; one further ahead than
// the topic allows, or in microseconds, would pin its segment and is refused.
func TestTimestampBounds(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	now, ahead := n.clock.wall/int64(time.Millisecond), testConfig.TimestampAheadMax.Milliseconds()
	stored := core.Offset(0)
	for _, c := range []struct {
		name    string
		ms      int64
		refused bool
	}{
		{"now", now, false},
		{"in seconds", now / 1000, false},
		{"as far ahead as is allowed", now + ahead, false},
		{"one further ahead", now + ahead + 1, true},
		{"a year ahead", now + (365 * 24 * time.Hour).Milliseconds(), true},
		{"in microseconds", now * 1000, true},
		{"at the end of all time", math.MaxInt64, true},
	} {
		a := n.one(n.produceRequest(id, batchSpec{records: 1, timestamp: c.ms, producer: -1}))
		if !c.refused {
			stored++
		}
		if refused := a.Err != nil && a.Err.Code == proto.CodeInvalidTimestamp; refused != c.refused || !refused && a.Err != nil {
			t.Errorf("%s, %d ms: %v", c.name, c.ms, a.Err)
		}
		if end := n.machines[0].partitions[id].log.EndOffset(); end != stored {
			t.Fatalf("%s: the log ends at %d, want %d", c.name, end, stored)
		}
	}
}

func TestAppendTimeIsTheBrokers(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1, "message.timestamp.type", "append").Partitions[0].ID
	now := n.clock.wall / int64(time.Millisecond)
	// The producer's own time is far ahead and does not matter.
	a := n.one(n.produceRequest(id, batchSpec{records: 2, value: 5, timestamp: now * 1000, producer: -1}))
	if a.Err != nil || a.Timestamp != now {
		t.Fatalf("answer %+v, want append time %d", a, now)
	}
	f := n.one(n.fetchRequest(id, 0))
	for _, r := range parcelRecords(t, f.Parcel) { // checks the checksum
		if r.Timestamp != now {
			t.Errorf("record of time %d", r.Timestamp)
		}
	}
}

func TestDuplicateGetsTheFirstOffset(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 4, producer: -1}))
	first := n.batch(batchSpec{records: 3, producer: 5, sequence: 0})
	n.one(n.produceBatch(id, first))
	for range 3 {
		a := n.one(n.produceBatch(id, first))
		if a.Err != nil || !a.Duplicate || a.Offset != 4 || a.LogEndOffset != 7 {
			t.Fatalf("answer %+v", a)
		}
	}
}

// A duplicate must not be answered before its original is durable, and must not
// wait for what came after the original.
func TestDuplicateJoinsTheOriginal(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	p := n.machines[0].partitions[id]
	n.held = true
	batch := n.batch(batchSpec{records: 3, producer: 5})
	original, duplicate := n.produceBatch(id, batch), n.produceBatch(id, batch)
	between := n.produceRequest(id, batchSpec{records: 2, producer: -1})
	n.send(&original)
	n.send(&between)
	n.send(&duplicate)
	if p.acks.count != 3 {
		t.Fatalf("%d acks", p.acks.count)
	}
	var order []core.Offset
	for a := p.acks.first; a != nil; a = a.next {
		order = append(order, a.nextOffset)
	}
	if order[0] != 3 || order[1] != 3 || order[2] != 5 || !p.acks.first.next.duplicate {
		t.Errorf("acks in the order %v", order)
	}
	n.held = false
	n.settle()
	if got := n.answers(); len(got) != 3 || !got[1].Duplicate || got[1].Offset != 0 || got[2].Offset != 3 {
		t.Errorf("answers %+v", got)
	}
}

func TestOneShareOfMemory(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.MemoryBytes = 32 << 20 })
	topic := n.create("t", 2)
	n.held = true
	refused := 0
	for i := 0; i < 8; i++ {
		r := n.produceRequest(topic.Partitions[0].ID, batchSpec{records: 1, value: 900 << 10, producer: -1})
		n.send(&r)
	}
	for _, a := range n.answers() {
		if a.Err == nil || a.Err.Code != proto.CodeOverloaded || a.Err.WaitMs == 0 {
			t.Fatalf("answer %+v", a)
		}
		refused++
	}
	// An eighth of 32 MiB holds four batches of 900 KiB.
	if refused != 4 {
		t.Errorf("%d of 8 refused", refused)
	}
	r := n.produceRequest(topic.Partitions[1].ID, batchSpec{records: 1, value: 900 << 10, producer: -1})
	n.send(&r)
	if got := n.answers(); len(got) != 0 {
		t.Errorf("the other partition suffers: %v", got[0].Err)
	}
	n.held = false
	n.settle()
	if got := n.answers(); len(got) != 5 {
		t.Errorf("%d acks", len(got))
	}
	if m := n.machines[0].memory; m.pending != 0 {
		t.Errorf("%d bytes still counted", m.pending)
	}
}

// While compressed records of a compacted topic are on a worker, later produces
// must not overtake.
func TestProducesKeepTheirOrderBehindACheck(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1, "cleanup.policy", "compact").Partitions[0].ID
	n.workers[0].full = true
	compressed := n.produceRequest(id, batchSpec{records: 100, value: 30, codec: proto.CodecGzip, producer: -1})
	plain := n.produceRequest(id, batchSpec{records: 2, producer: -1})
	bad := n.produceRequest(id, batchSpec{records: 100, value: 30, codec: proto.CodecGzip, noKeys: true, producer: -1})
	last := n.produceRequest(id, batchSpec{records: 1, producer: -1})
	for _, r := range []*mail.Request{&compressed, &plain, &bad, &last} {
		n.send(r)
	}
	n.turn()
	if got := n.answers(); len(got) != 0 || !n.machines[0].Busy() {
		t.Fatalf("answers %+v before the check", got)
	}
	n.workers[0].full = false
	n.settle()
	got := map[uint64]mail.Answer{}
	for _, a := range n.answers() {
		got[a.ID] = a
	}
	if got[compressed.ID].Offset != 0 || got[plain.ID].Offset != 100 || got[bad.ID].Err == nil || got[last.ID].Offset != 102 || got[last.ID].Err != nil {
		t.Errorf("answers %+v", got)
	}
	if p := n.machines[0].partitions[id]; p.inspect != nil || p.pendingBytes != 0 {
		t.Errorf("left behind: %+v, %d bytes", p.inspect, p.pendingBytes)
	}
}

func TestProduceTimesOutAndKeepsItsPlace(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	n.held = true
	r := n.produceRequest(id, batchSpec{records: 1, producer: -1})
	r.Wait = int64(50 * time.Millisecond)
	n.send(&r)
	n.clock.advance(40 * time.Millisecond)
	n.machines[0].Tick()
	if got := n.answers(); len(got) != 0 {
		t.Fatalf("too early: %+v", got)
	}
	n.clock.advance(20 * time.Millisecond)
	n.machines[0].Tick()
	if got := n.answers(); len(got) != 1 || got[0].Err.Code != proto.CodeTimedOut {
		t.Fatalf("answers %+v", got)
	}
	n.held = false
	if a := n.one(n.produceRequest(id, batchSpec{records: 1, producer: -1})); a.Offset != 1 {
		t.Errorf("answer %+v", a)
	}
	if p := n.machines[0].partitions[id]; p.acks.count != 0 || p.pendingBytes != 0 || n.machines[0].wheel.armed != 0 {
		t.Errorf("left behind: %d acks, %d bytes, %d timers", p.acks.count, p.pendingBytes, n.machines[0].wheel.armed)
	}
}

// The produces of a partition have one timer: each is still told when its own time
// has passed, in whatever order the times are, and those without an answer are not told.
func TestProducesOfAPartitionTimeOutEachByItself(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	n.held = true
	for i, wait := range []time.Duration{90, 30, 60, 10, 60} {
		r := n.produceRequest(id, batchSpec{records: 1, producer: -1})
		r.ID, r.Wait = uint64(i+1), int64(wait*time.Millisecond)
		if wait == 10 {
			r.Acks = acksNone
		}
		n.send(&r)
	}
	m := n.machines[0]
	if m.wheel.armed != 1 {
		t.Errorf("%d timers for one partition", m.wheel.armed)
	}
	if s := m.Snapshot(); s.Waiters != 5 {
		t.Errorf("%d waiters of 5", s.Waiters)
	}
	for _, want := range [][]uint64{nil, {2}, {3, 5}, {1}, nil} {
		n.clock.advance(25 * time.Millisecond)
		m.Tick()
		var told []uint64
		for _, a := range n.answers() {
			if a.Err == nil || a.Err.Code != proto.CodeTimedOut {
				t.Fatalf("answer %+v", a)
			}
			told = append(told, a.ID)
		}
		if !slices.Equal(told, want) {
			t.Errorf("told are %v, not %v", told, want)
		}
	}
	if p := m.partitions[id]; p.acks.count != 5 || m.wheel.armed != 0 {
		t.Errorf("%d acks keep their places of 5; %d timers", p.acks.count, m.wheel.armed)
	}
	n.held = false
	if a := n.one(n.produceRequest(id, batchSpec{records: 1, producer: -1})); a.Offset != 5 {
		t.Errorf("answer %+v", a)
	}
}

func TestAnswersWaitForRoomInTheRing(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	n.outs[0].answersFull = true
	for range 3 {
		r := n.produceRequest(id, batchSpec{records: 1, producer: -1})
		n.send(&r)
	}
	for range 50 {
		n.turn()
	}
	if !n.machines[0].Busy() {
		t.Error("the loop may park with answers that nobody got")
	}
	n.outs[0].answersFull = false
	n.settle()
	got := n.answers()
	if len(got) != 3 || got[0].Offset != 0 || got[2].Offset != 2 || n.machines[0].Busy() {
		t.Errorf("answers %+v", got)
	}
}

// With compression.validate a batch whose compressed records do not fit its
// header is refused; without, the broker does not look.
func TestCompressedRecordsAreChecked(t *testing.T) {
	n := newNode(t, 1)
	batch := n.batch(batchSpec{records: 50, value: 50, codec: proto.CodecGzip, producer: -1})
	broken := append(proto.Batch(nil), batch...)
	records := append([]byte(nil), broken.Records()...)
	for i := range records[20:] {
		records[20+i] ^= 0x55
	}
	copy(broken.Records(), records)
	binary.BigEndian.PutUint32(broken[17:], proto.CRC(broken[21:]))
	for value, code := range map[string]proto.Code{"true": proto.CodeCorruptBatch, "false": 0} {
		id := n.create("t-"+value, 1, "compression.validate", value).Partitions[0].ID
		if a := n.one(n.produceBatch(id, batch)); a.Err != nil {
			t.Errorf("validate %s: %v", value, a.Err)
		}
		a := n.one(n.produceBatch(id, broken))
		if (a.Err == nil) != (code == 0) || a.Err != nil && a.Err.Code != code {
			t.Errorf("validate %s: %v, want %v", value, a.Err, code)
		}
	}
}

// A partition that could not be opened says so to everybody, and can be deleted.
func TestUnavailablePartition(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("t", 1).Partitions[0].ID
	p := n.machines[0].partitions[id]
	p.unavailable, p.log = errors.New("no valid state"), nil
	for _, r := range []mail.Request{
		n.produceRequest(id, batchSpec{records: 1, producer: -1}), n.fetchRequest(id, 0),
		{Kind: mail.RequestDescribe, Partition: id, LeaderEpoch: -1}, {Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: -1},
		{Kind: mail.RequestListOffset, Partition: id, LeaderEpoch: -1}, {Kind: mail.RequestSubscribe, Partition: id, LeaderEpoch: -1, LastEpoch: -1},
	} {
		if a := n.one(r); a.Err == nil || a.Err.Code != proto.CodePartitionUnavailable || !strings.Contains(a.Err.Text, "no valid state") {
			t.Errorf("kind %d: %+v", r.Kind, a.Err)
		}
	}
	if s := n.machines[0].Snapshot(); !s.Partitions[0].Unavailable {
		t.Error("the snapshot does not say so")
	}
	if a := n.admin(&proto.AlterTopicRequest{Name: "t", Set: []proto.TopicConfig{{Key: "durability", Value: "none"}}}); a.Err != nil {
		t.Error(a.Err)
	}
	if a := n.admin(&proto.DeleteTopicRequest{Name: "t"}); a.Err != nil || len(n.machines[0].partitions) != 0 {
		t.Errorf("delete: %+v", a)
	}
}

// Five batches in flight and the second is refused: those behind it fail too, and
// sent again in order each is stored once.
func TestTheTailFailsBehindARefusedBatch(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.MemoryBytes = 16 << 20 }) // a share is 2 MiB
	id := n.create("t", 1).Partitions[0].ID
	var batches []proto.Batch
	for i, size := range []int{1000 << 10, 1000 << 10, 10, 10, 10} {
		batches = append(batches, n.batch(batchSpec{records: 1, value: size, producer: 4, sequence: int32(i)}))
	}
	filler := n.produceRequest(id, batchSpec{records: 1, value: 100 << 10, producer: -1})
	n.held = true
	n.send(&filler)
	for _, b := range batches {
		r := n.produceBatch(id, b)
		n.send(&r)
	}
	n.held = false
	n.settle()
	codes := map[proto.Code]int{}
	for _, a := range n.answers() {
		if a.Err != nil {
			codes[a.Err.Code]++
		}
	}
	if codes[proto.CodeOverloaded] != 1 || codes[proto.CodeOutOfOrderSequence] != 3 {
		t.Fatalf("refusals %v", codes)
	}
	for i, b := range batches {
		a := n.one(n.produceBatch(id, b))
		if a.Err != nil || a.Offset != core.Offset(1+i) || a.Duplicate != (i == 0) {
			t.Errorf("batch %d again: %+v", i, a)
		}
	}
	if got := n.readAll(id); len(got) != 6 {
		t.Errorf("%d records", len(got))
	}
}
