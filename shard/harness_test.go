package shard

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// testClock is moved by hand.
type testClock struct{ wall, monotonic int64 }

func (c *testClock) Now() int64       { return c.wall }
func (c *testClock) Monotonic() int64 { return c.monotonic }
func (c *testClock) advance(d time.Duration) {
	c.wall += int64(d)
	c.monotonic += int64(d)
}

// testStart is the wall clock at the start of every test.
var testStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newTestClock() *testClock {
	return &testClock{wall: testStart.UnixNano(), monotonic: 1_000_000_000}
}

// testWorkers runs jobs when the test says so.
type testWorkers struct {
	jobs []core.Job
	full bool
}

func (w *testWorkers) Submit(j core.Job) bool {
	if w.full || len(w.jobs) >= 16 {
		return false
	}
	w.jobs = append(w.jobs, j)
	return true
}

// node is several machines of one node, with their rings.
type node struct {
	t        testing.TB
	clock    *testClock
	machines []*Machine
	disks    []*testDisk
	workers  []*testWorkers
	outs     []*testOut
	view     core.View
	incoming [][]mail.Letter
	ids      byte
	requests uint64
	held     bool // disk operations do not end
	defaults core.TopicConfig
	store    segment.Options
	null     *nullNode // when the disk stores nothing
}

// testOut collects what a machine sends.
type testOut struct {
	node        *node
	shard       int
	answers     []mail.Answer
	answersFull bool
	lettersFull bool
	keep        bool // false: answers are counted and forgotten
	count       int
	parcels     bool // keep the parcels of forgotten answers
	out         []*mail.Parcel
}

func (o *testOut) Answer(_ int, a *mail.Answer) bool {
	if o.answersFull {
		return false
	}
	o.count++
	if o.keep {
		o.answers = append(o.answers, *a)
	} else if o.parcels && a.Parcel != nil {
		o.out = append(o.out, a.Parcel)
	}
	return true
}

func (o *testOut) Letter(shard core.ShardID, l *mail.Letter) bool {
	if o.lettersFull || len(o.node.incoming[shard]) >= 8 {
		return false
	}
	o.node.incoming[shard] = append(o.node.incoming[shard], *l)
	return true
}

func (o *testOut) Publish(v core.View) { o.node.view = v }

var testConfig = core.TopicConfig{
	Durability: core.DurabilitySync, FlushTime: 10 * time.Millisecond, FlushBytes: core.MiB,
	RetentionTime: 24 * time.Hour, RetentionBytes: core.SizeUnlimited,
	SegmentBytes: 64 * core.MiB, SegmentTime: time.Hour,
	MessageBytesMax: core.MiB, TimestampAheadMax: time.Hour,
	Queue: core.QueueConfig{WindowMax: 1000, AckTimeout: 30 * time.Second, DeliveriesMax: 3},
}

// newNode makes a node of a few shards on a fresh folder and boots it.
func newNode(t testing.TB, shards int, change ...func(*Options)) *node {
	n := &node{t: t, clock: newTestClock(), defaults: testConfig}
	n.incoming = make([][]mail.Letter, shards)
	n.disks = openTestDisks(t, mem.New(), shards)
	n.start(shards, change...)
	return n
}

// start makes the machines on whatever the disks hold, as start-up does.
func (n *node) start(shards int, change ...func(*Options)) {
	n.machines, n.workers, n.outs = nil, nil, nil
	for i := range shards {
		o := Options{
			Shard: core.ShardID(i), Shards: shards, Reactors: 2,
			FetchBytesMax: 8 << 20, FetchRecordsMax: 1 << 20, FetchWaitMax: time.Minute,
			BatchRecordsMax: 10_000, ProducerExpiry: time.Hour, RequestTimeout: 10 * time.Second,
			Incarnation: [16]byte{9},
			Rules:       cluster.Rules{Node: 1, PartitionsDefault: 1, ReplicasDefault: 1},
			Metadata:    cluster.Options{ClusterID: "test", Defaults: n.defaults},
		}
		for _, c := range change {
			c(&o)
		}
		out, workers := &testOut{node: n, shard: i, keep: true}, &testWorkers{}
		n.outs, n.workers = append(n.outs, out), append(n.workers, workers)
		m := New(Ports{
			Store: n.disks[i].open(n, workers), Clock: n.clock, Workers: workers, Slabs: n.slabs(), Out: out,
			View:     func() core.View { return n.view },
			TopicIDs: func() core.TopicID { n.ids++; return core.TopicID{15: n.ids} },
		}, o)
		n.machines = append(n.machines, m)
	}
	home := n.metadata()
	if err := home.OpenMetadata(); err != nil {
		n.t.Fatal(err)
	}
	places := make([][]Place, shards) // each shard opens its partitions together, side by side
	home.Metadata().View().TopicsAfter("", func(topic *core.Topic) bool {
		for number, p := range topic.Partitions {
			shard := core.ShardOf(p.ID, shards)
			places[shard] = append(places[shard], Place{Topic: topic, Number: core.PartitionNumber(number)})
		}
		return true
	})
	for i, m := range n.machines {
		m.Open(places[i], func(err error) { n.t.Fatal(err) })
	}
	for _, m := range n.machines {
		err := m.Serve(func(id core.PartitionID) bool {
			_, _, state := home.Metadata().Partition(id)
			return state != cluster.PartitionUnknown
		})
		if err != nil {
			n.t.Fatal(err)
		}
		if err := m.Boot(); err != nil {
			n.t.Fatal(err)
		}
	}
	n.settle()
	if !home.Ready() || n.view == nil {
		n.t.Fatal("the node is not ready")
	}
}

func (n *node) slabs() core.SlabSource {
	if n.null != nil {
		return n.null.slabs
	}
	return core.HeapSlabs{}
}

func (n *node) metadata() *Machine { return n.owner(core.MetadataPartition) }

func (n *node) owner(id core.PartitionID) *Machine {
	return n.machines[core.ShardOf(id, len(n.machines))]
}

// turn is one turn of every machine. It says whether anything moved.
func (n *node) turn() bool {
	moved := false
	for i, m := range n.machines {
		letters := n.incoming[i]
		n.incoming[i] = nil
		for j := range letters {
			m.Letter(&letters[j])
			moved = true
		}
		if !n.held && n.disks[i].reap(m) {
			moved = true
		}
		jobs := n.workers[i].jobs
		n.workers[i].jobs = nil
		for _, j := range jobs {
			j.Run()
			m.JobDone(j)
			moved = true
		}
		before := n.outs[i].count
		m.Tick()
		m.Flush()
		moved = moved || n.outs[i].count != before || m.Busy() && !n.outs[i].answersFull && !n.outs[i].lettersFull || n.disks[i].pending() && !n.held
		if err := m.Err(); err != nil {
			n.t.Fatal(err)
		}
	}
	return moved
}

// settle runs turns until nothing moves any more.
func (n *node) settle() {
	quiet := 0
	for i := 0; quiet < 3; i++ {
		if quiet++; n.turn() {
			quiet = 0
		}
		if i > 100_000 {
			n.t.Fatal("the machines never come to rest")
		}
	}
	for _, m := range n.machines {
		for _, p := range m.partitions {
			if p.coordinator != nil {
				p.coordinator.checkTally(n.t)
			}
		}
	}
}

// checkTally counts what is kept up to date.
func (c *coordinator) checkTally(t testing.TB) {
	var tally groupTally
	weight := 0
	for _, e := range c.byName {
		weight += e.weight
		tally.members += len(e.Members)
		tally.leftOut += e.LeftOut
		if e.movingSince != 0 {
			tally.moving++
		}
	}
	if tally != c.tally || weight != c.weight || len(c.sorted) != len(c.byName) {
		t.Fatalf("a coordinator has tallied %+v, weight %d, %d names; in truth %+v, %d, %d", c.tally, c.weight, len(c.sorted), tally, weight, len(c.byName))
	}
}

// answers takes what reactors have got since the last call, shard by shard.
func (n *node) answers() (all []mail.Answer) {
	for _, o := range n.outs {
		all = append(all, o.answers...)
		o.answers = nil
	}
	return all
}

// ask sends a request for a partition or the metadata and settles. It returns
// the answers that came.
func (n *node) ask(r mail.Request) []mail.Answer {
	n.send(&r)
	n.settle()
	return n.answers()
}

// one is ask for a request with exactly one answer.
func (n *node) one(r mail.Request) mail.Answer {
	n.t.Helper()
	answers := n.ask(r)
	if len(answers) != 1 {
		n.t.Fatalf("%d answers: %+v", len(answers), answers)
	}
	return answers[0]
}

func (n *node) send(r *mail.Request) {
	if r.ID == 0 {
		n.requests++
		r.ID = n.requests
	}
	r.Received = n.clock.monotonic
	m := n.metadata()
	if r.Kind != mail.RequestAdmin && r.Partition != 0 {
		m = n.owner(r.Partition)
	}
	m.Receive(r)
}

func (n *node) create(name string, partitions uint32, settings ...string) *core.Topic {
	n.t.Helper()
	body := &proto.CreateTopicRequest{Name: name, Partitions: partitions}
	for i := 0; i < len(settings); i += 2 {
		body.Configs = append(body.Configs, proto.TopicConfig{Key: settings[i], Value: settings[i+1]})
	}
	if a := n.one(mail.Request{Kind: mail.RequestAdmin, Body: body}); a.Err != nil {
		n.t.Fatal(a.Err)
	}
	topic := n.view.TopicByName(name)
	if topic == nil {
		n.t.Fatalf("the view does not show %s", name)
	}
	return topic
}

// batchSpec describes a batch to build.
type batchSpec struct {
	records   int
	value     int // bytes of each
	noKeys    bool
	codec     proto.Codec
	producer  int64
	epoch     int16
	sequence  int32
	timestamp int64 // milliseconds; 0 is now
}

func (n *node) batch(s batchSpec) proto.Batch {
	var b proto.BatchBuilder
	b.Reset(s.codec)
	if s.timestamp == 0 {
		s.timestamp = n.clock.wall / int64(time.Millisecond)
	}
	for i := range s.records {
		r := proto.Record{Timestamp: s.timestamp, Value: make([]byte, s.value)}
		if !s.noKeys {
			r.Key = fmt.Append(nil, "key-", i)
		}
		for j := range r.Value {
			r.Value[j] = byte(i + j)
		}
		if err := b.Append(&r); err != nil {
			n.t.Fatal(err)
		}
	}
	batch, err := b.Build()
	if err != nil {
		n.t.Fatal(err)
	}
	if s.producer >= 0 {
		batch.SetProducer(s.producer, s.epoch, s.sequence)
	}
	return batch
}

func (n *node) produceRequest(id core.PartitionID, s batchSpec) mail.Request {
	return n.produceBatch(id, n.batch(s))
}

func (n *node) produceBatch(id core.PartitionID, batch proto.Batch) mail.Request {
	slab := core.HeapSlabs{}.Get(core.BatchRoomBytes + len(batch) + core.DiskAlignment)
	copy(slab.Bytes[core.BatchRoomBytes:], batch)
	return mail.Request{
		Kind: mail.RequestProduce, Acks: uint8(proto.AcksDurable), Partition: id, LeaderEpoch: -1,
		Slab: slab, Start: core.BatchRoomBytes, Bytes: uint32(len(batch)), RecordsCRC: batch.RecordsCRC(),
	}
}

func (n *node) fetchRequest(id core.PartitionID, offset core.Offset) mail.Request {
	return mail.Request{Kind: mail.RequestFetch, Partition: id, LeaderEpoch: -1, LastEpoch: -1, Offset: offset}
}

// giveBack returns a parcel, as the reactor does once the socket has taken it.
func (n *node) giveBack(id core.PartitionID, parcel *mail.Parcel) {
	n.owner(id).Receive(&mail.Request{Kind: mail.RequestReturn, Parcel: parcel})
}

// records reads a parcel's batches through their checksums.
func parcelRecords(t testing.TB, parcel *mail.Parcel) (records []proto.Record) {
	t.Helper()
	if parcel == nil {
		return nil
	}
	for _, slice := range parcel.Slices {
		for len(slice) > 0 {
			batch, rest, err := proto.NextBatch(slice)
			if err != nil {
				t.Fatal(err)
			}
			if err := batch.ValidateCRC(); err != nil {
				t.Fatal(err)
			}
			var it proto.RecordIterator
			for _ = it.Reset(batch, 64<<20); it.Next(); {
				r := *it.Record()
				r.Key, r.Value = append([]byte(nil), r.Key...), append([]byte(nil), r.Value...)
				r.Headers = append([]proto.Header(nil), r.Headers...)
				for i, h := range r.Headers {
					r.Headers[i] = proto.Header{Key: bytes.Clone(h.Key), Value: bytes.Clone(h.Value)}
				}
				records = append(records, r)
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			slice = rest
		}
	}
	return records
}
