package netio

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// testClock is moved by hand.
type testClock struct{ now atomic.Int64 }

func (c *testClock) Now() int64       { return 1_700_000_000_000_000_000 + c.now.Load() }
func (c *testClock) Monotonic() int64 { return c.now.Load() }

// testConn records what is written. It can be told to take only so much.
type testConn struct {
	sent     []byte // taken by the "socket"
	buffered []byte
	room     int // of the socket; -1 takes everything
	writes   int
	slices   []int // of each write
	closed   bool
	half     bool
	failing  bool
	session  *Session
}

func (c *testConn) Write(p []byte) error { return c.Writev([][]byte{p}) }

func (c *testConn) Writev(ps [][]byte) error {
	core.Assert(len(ps) <= core.AnswerSlicesMax, "a write has a bounded number of slices")
	if c.closed {
		return net.ErrClosed
	}
	if c.failing {
		c.Close() // as gnet does
		return net.ErrClosed
	}
	c.writes++
	c.slices = append(c.slices, len(ps))
	for _, p := range ps {
		c.buffered = append(c.buffered, p...)
	}
	c.take()
	return nil
}

// take moves bytes to the socket as far as it has room.
func (c *testConn) take() {
	n := len(c.buffered)
	if c.room >= 0 {
		n = min(n, c.room)
		c.room -= n
	}
	c.sent = append(c.sent, c.buffered[:n]...)
	c.buffered = c.buffered[n:]
}

func (c *testConn) Buffered() int  { return len(c.buffered) }
func (c *testConn) Remote() string { return "test" }
func (c *testConn) CloseWrite()    { c.half = true }
func (c *testConn) Close() {
	if !c.closed {
		c.closed = true
		c.session.Lost()
	}
}

// frame is one that was sent to the client.
type frame struct {
	header  proto.FrameHeader
	payload []byte
}

// frames cuts what was sent.
func frames(t tb, b []byte) []frame {
	t.Helper()
	var list []frame
	for len(b) > 0 {
		h, ok, err := proto.DecodeFrameHeader(b, 1<<30)
		if err != nil || !ok || len(b) < h.FrameBytes() {
			t.Fatalf("the broker sent a broken frame: %v %v, %d bytes left", ok, err, len(b))
		}
		list = append(list, frame{h, b[proto.FrameHeaderBytes:h.FrameBytes()]})
		b = b[h.FrameBytes():]
	}
	return list
}

// testArena counts slabs.
type testArena struct {
	out    atomic.Int64
	budget int64
}

func (a *testArena) Get(n int) *core.Slab {
	if n > core.SlabBytesMax || a.out.Load() >= a.budget {
		return nil
	}
	a.out.Add(1)
	slab := core.HeapSlabs{}.Get(n)
	slab = core.NewSlab(slab.Bytes, a).Issue()
	return slab
}

func (a *testArena) Put(*core.Slab)       { a.out.Add(-1) }
func (a *testArena) Discard(s *core.Slab) { s.Release() }

type kicks struct{ count int }

func (k *kicks) Kick() { k.count++ }

// testView is a fixed set of topics.
type testView struct {
	epoch  uint64
	topics []*core.Topic
}

func (v *testView) Epoch() uint64          { return v.epoch }
func (v *testView) ClusterID() string      { return "test-cluster" }
func (v *testView) Brokers() []core.Broker { return []core.Broker{{ID: 1}} }
func (v *testView) Topics() int            { return len(v.topics) }
func (v *testView) TopicByName(name string) *core.Topic {
	for _, t := range v.topics {
		if t.Name == name {
			return t
		}
	}
	return nil
}
func (v *testView) TopicByID(id core.TopicID) *core.Topic {
	for _, t := range v.topics {
		if t.ID == id {
			return t
		}
	}
	return nil
}
func (v *testView) TopicsAfter(name string, each func(*core.Topic) bool) {
	for _, t := range v.topics {
		if t.Name > name && !each(t) {
			return
		}
	}
}

var (
	topicA = core.TopicID{0xa}
	topicB = core.TopicID{0xb}
)

func testTopic(id core.TopicID, name string, partitions int, first core.PartitionID) *core.Topic {
	t := &core.Topic{ID: id, Name: name, Replicas: 1, Config: core.TopicConfig{MessageBytesMax: 1 << 20}}
	for i := range partitions {
		t.Partitions = append(t.Partitions, core.TopicPartition{ID: first + core.PartitionID(i), Leader: 1, LeaderEpoch: -1})
	}
	return t
}

// fakeShard keeps partitions in memory and answers at once.
type fakeShard struct {
	links   []*mail.Link // by reactor
	logs    map[core.PartitionID]*fakeLog
	subs    map[fakeSubKey]*fakeSub
	credits map[fakeSubKey]*int64
	order   []fakeSubKey
	pending [][]mail.Answer // by reactor, that found the ring full
	parcels int             // not given back
	seen    []mail.Request  // without slabs, when keep is set
	keep    bool
	create  func(*proto.MetadataRequest)
	mute    bool // answers nothing
	chunk   int  // batches per fetch answer

	leasings []*fakeLeasing
	begun    map[core.PartitionID]bool        // by a queue group
	next     map[core.PartitionID]core.Offset // of the record to be leased next
}

type fakeSubKey struct {
	reactor   uint8
	conn      mail.ConnRef
	id        uint64
	partition core.PartitionID
}

type fakeSub struct {
	next   core.Offset
	credit *int64
}

type fakeLog struct {
	batches [][]byte
	next    core.Offset
}

func newFakeShard(links []*mail.Link) *fakeShard {
	return &fakeShard{
		links:   links,
		logs:    make(map[core.PartitionID]*fakeLog),
		subs:    make(map[fakeSubKey]*fakeSub),
		credits: make(map[fakeSubKey]*int64),
		pending: make([][]mail.Answer, len(links)),
		chunk:   1 << 30,
		begun:   make(map[core.PartitionID]bool),
		next:    make(map[core.PartitionID]core.Offset),
	}
}

func (f *fakeShard) log(id core.PartitionID) *fakeLog {
	if f.logs[id] == nil {
		f.logs[id] = &fakeLog{}
	}
	return f.logs[id]
}

// step serves what is in the rings and says whether there was anything.
func (f *fakeShard) step() bool {
	any := false
	for reactor, link := range f.links {
		for {
			q, ok := link.Requests.Pop()
			if !ok {
				break
			}
			any = true
			f.serve(uint8(reactor), &q)
		}
	}
	f.push()
	f.pushLeased()
	for reactor, link := range f.links {
		waiting := f.pending[reactor]
		sent := 0
		for sent < len(waiting) && link.Answers.Push(waiting[sent]) {
			sent++
		}
		f.pending[reactor] = waiting[sent:]
		if sent > 0 {
			any = true
			link.Reactor.Kick()
		}
	}
	return any
}

func (f *fakeShard) answer(reactor uint8, a mail.Answer) {
	if !f.mute {
		f.pending[reactor] = append(f.pending[reactor], a)
	}
}

func (f *fakeShard) serve(reactor uint8, q *mail.Request) {
	if f.keep {
		kept := *q
		kept.Slab = nil
		f.seen = append(f.seen, kept)
	}
	a := mail.Answer{Conn: q.Conn, ID: q.ID, Partition: q.Partition, Received: q.Received, LeaderEpoch: 7}
	switch q.Kind {
	case mail.RequestProduce:
		log := f.log(q.Partition)
		batch := proto.Batch(bytes.Clone(q.Slab.Bytes[q.Start : q.Start+q.Bytes]))
		q.Slab.Release()
		if (len(batch) >= core.CombineBytesMin || q.RecordsCRC != 0) && batch.RecordsCRC() != q.RecordsCRC {
			panic("the reactor handed on a wrong checksum")
		}
		batch.SetBaseOffset(int64(log.next))
		a.Kind, a.Offset, a.Timestamp, a.Durability = mail.AnswerProduce, log.next, -1, core.DurabilitySync
		log.batches = append(log.batches, batch)
		log.next += core.Offset(batch.Count())
		if q.Acks == uint8(proto.AcksNone) {
			return
		}
	case mail.RequestFetch:
		log := f.log(q.Partition)
		list := log.from(q.Offset, int(q.BytesMax))
		for len(list) > f.chunk {
			part := a
			part.Kind, part.More = mail.AnswerFetch, true
			part.HighWatermark = log.next
			part.Parcel = f.parcel(list[:f.chunk])
			list = list[f.chunk:]
			f.answer(reactor, part)
		}
		a.Kind, a.HighWatermark, a.LogEndOffset = mail.AnswerFetch, log.next, log.next
		a.Parcel = f.parcel(list)
	case mail.RequestSubscribe:
		key := fakeSubKey{reactor, q.Conn, q.ID, q.Partition}
		credit := f.credit(key)
		f.subs[key] = &fakeSub{next: q.Offset, credit: credit}
		f.order = append(f.order, key)
		a.Kind = mail.AnswerSubscribe
		if q.Offset > 1_000_000 {
			f.drop(key)
			a.Err = proto.CodeOffsetOutOfRange.Errorf("offset %d", q.Offset)
		}
	case mail.RequestUnsubscribe:
		if q.Partition == 0 {
			f.credits[fakeSubKey{reactor, q.Conn, q.ID, 0}] = nil
			for _, key := range slices.Clone(f.order) {
				if key.reactor == reactor && key.conn == q.Conn && key.id == q.ID {
					f.drop(key)
				}
			}
			return
		}
		f.drop(fakeSubKey{reactor, q.Conn, q.ID, q.Partition})
		return
	case mail.RequestCredit:
		*f.credit(fakeSubKey{reactor, q.Conn, q.ID, 0}) += int64(q.Bytes)
		return
	case mail.RequestListOffset:
		a.Kind, a.Offset, a.Timestamp = mail.AnswerListOffset, f.log(q.Partition).next, -1
		if q.Lookup == mail.LookupEarliest {
			a.Offset = 0
		}
	case mail.RequestDescribe:
		a.Kind, a.HighWatermark, a.LogEndOffset, a.SizeBytes = mail.AnswerDescribe, f.log(q.Partition).next, f.log(q.Partition).next, 99
	case mail.RequestTrim:
		a.Kind, a.LogStartOffset = mail.AnswerTrim, q.Offset
	case mail.RequestAdmin:
		a.Kind = mail.AnswerAdmin
		switch m := q.Body.(type) {
		case *proto.CreateTopicRequest:
			if m.Name == "" {
				a.Kind, a.Err = mail.AnswerError, proto.CodeInvalidName.Errorf("empty")
			}
			a.Body = &proto.CreateTopicResponse{TopicID: topicA, Partitions: m.Partitions, Replicas: 1}
		case *proto.MetadataRequest:
			if f.create != nil {
				f.create(m)
			}
		case *proto.DeleteTopicRequest:
			a.Body = &proto.DeleteTopicResponse{}
		case *proto.AlterTopicRequest:
			a.Body = &proto.AlterTopicResponse{}
		case *proto.InitProducerRequest:
			a.Body = &proto.InitProducerResponse{ProducerID: 1000}
		}
	case mail.RequestLease, mail.RequestUnlease, mail.RequestLeaseCredit, mail.RequestLeaseRecall, mail.RequestSettle, mail.RequestQueue, mail.RequestQueues:
		f.serveQueue(reactor, q, a)
		return
	case mail.RequestReturn:
		f.parcels--
		return
	case mail.RequestDisconnect:
		for _, key := range slices.Clone(f.order) {
			if key.reactor == reactor && key.conn == q.Conn {
				f.drop(key)
			}
		}
		f.leasings = slices.DeleteFunc(f.leasings, func(l *fakeLeasing) bool { return l.reactor == reactor && l.conn == q.Conn })
		return
	}
	f.answer(reactor, a)
}

// credit is shared by the partitions of one subscription.
func (f *fakeShard) credit(key fakeSubKey) *int64 {
	key.partition = 0
	if f.credits[key] == nil {
		f.credits[key] = new(int64)
	}
	return f.credits[key]
}

func (f *fakeShard) drop(key fakeSubKey) {
	delete(f.subs, key)
	f.order = slices.DeleteFunc(f.order, func(k fakeSubKey) bool { return k == key })
}

// push delivers to subscriptions batch by batch.
func (f *fakeShard) push() {
	for _, key := range f.order {
		sub, log := f.subs[key], f.log(key.partition)
		for *sub.credit > 0 && sub.next < log.next {
			list := log.from(sub.next, 1)
			*sub.credit -= int64(len(list[0]))
			sub.next = core.Offset(proto.Batch(list[0]).NextOffset())
			f.answer(key.reactor, mail.Answer{
				Kind: mail.AnswerDeliver, Conn: key.conn, ID: key.id, Partition: key.partition,
				LeaderEpoch: 7, HighWatermark: log.next, Parcel: f.parcel(list),
			})
		}
	}
}

// from returns whole batches from an offset on, at least one if there is any.
func (l *fakeLog) from(offset core.Offset, bytesMax int) [][]byte {
	var list [][]byte
	total := 0
	for _, b := range l.batches {
		if core.Offset(proto.Batch(b).NextOffset()) <= offset {
			continue
		}
		if total += len(b); total > bytesMax && len(list) > 0 {
			break
		}
		list = append(list, b)
	}
	return list
}

func (f *fakeShard) parcel(list [][]byte) *mail.Parcel {
	if len(list) == 0 {
		return nil
	}
	if !f.mute {
		f.parcels++
	}
	p := &mail.Parcel{Slices: slices.Clone(list)}
	for _, b := range list {
		p.Bytes += len(b)
	}
	return p
}

// bench is a reactor with fake shards, driven by hand.
type bench struct {
	t       tb
	clock   *testClock
	view    *testView
	views   *mail.Views
	links   []*mail.Link
	arenas  []*testArena
	reactor *Reactor
	shards  []*fakeShard
}

type benchOptions struct {
	shards   int
	ring     int
	settings func(*Settings)
}

func testSettings() Settings {
	return Settings{
		NodeID: 1, HandshakeTimeout: 10e9, Keepalive: 30e9, IdleTimeout: 90e9, SlowReaderTimeout: 30e9,
		RequestTimeout: 30e9, WindowBytes: 8 << 20, WindowRequests: 1024, WindowBudgetBytes: 1 << 30,
		SendBufferMax: 8 << 20, BatchBytesMax: 1 << 20, BatchRecordsMax: 100_000,
		FetchBytesMax: 16 << 20, FetchRecordsMax: 100_000, FetchWaitMax: 30e9,
	}
}

func newBench(t tb, o benchOptions) *bench {
	o.shards, o.ring = max(o.shards, 1), max(o.ring, 256)
	b := &bench{
		t: t, clock: &testClock{}, views: &mail.Views{},
		view: &testView{epoch: 5, topics: []*core.Topic{testTopic(topicA, "alpha", 8, 16), testTopic(topicB, "beta", 1, 100)}},
	}
	b.clock.now.Store(1e9)
	b.views.Publish(b.view)
	for range o.shards {
		arena := &testArena{budget: 1 << 20}
		link := &mail.Link{
			Requests: ring.NewSPSC[mail.Request](o.ring), Answers: ring.NewSPSC[mail.Answer](o.ring),
			Shard: &kicks{}, Reactor: &kicks{}, Arena: arena,
		}
		b.arenas = append(b.arenas, arena)
		b.links = append(b.links, link)
		b.shards = append(b.shards, newFakeShard([]*mail.Link{link}))
	}
	settings := testSettings()
	if o.settings != nil {
		o.settings(&settings)
	}
	b.reactor = NewReactor(ReactorOptions{Settings: settings, Clock: b.clock, Views: b.views, Links: b.links})
	return b
}

// open makes a connection that has not said HELLO.
func (b *bench) open() (*Session, *testConn) {
	c := &testConn{room: -1}
	c.session = b.reactor.Open(c, &Listener{AdvertisedHost: "broker.test", AdvertisedPort: 9090})
	return c.session, c
}

// connect makes a connection that has.
func (b *bench) connect() (*Session, *testConn) {
	s, c := b.open()
	b.receive(s, proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic, ClientName: "test"}))
	got := frames(b.t, c.sent)
	if len(got) != 1 || got[0].header.Command != proto.CommandHello {
		b.t.Fatalf("HELLO was answered with %v", got)
	}
	c.sent = nil
	return s, c
}

// receive is one event.
func (b *bench) receive(s *Session, p []byte) {
	s.Receive(p)
	b.reactor.Flush()
}

// run lets shards and reactor work until nothing moves.
func (b *bench) run() {
	for moved := true; moved; {
		moved = false
		for _, f := range b.shards {
			moved = f.step() || moved
		}
		b.reactor.Turn()
		for _, link := range b.links {
			moved = moved || link.Requests.Len() > 0 || link.Answers.Len() > 0
		}
	}
}

// ask sends a request, runs, and returns what was sent back.
func (b *bench) ask(s *Session, c *testConn, id uint64, m proto.Message) []frame {
	b.t.Helper()
	c.sent = nil
	b.receive(s, proto.AppendFrame(nil, id, m))
	b.run()
	return frames(b.t, c.sent)
}

// wantError checks that the only answer is an error with a code.
func wantError(t tb, got []frame, id uint64, code proto.Code) *proto.Error {
	t.Helper()
	if len(got) != 1 || got[0].header.Command != proto.CommandError || got[0].header.RequestID != id {
		t.Fatalf("got %v, want one ERROR for request %d", got, id)
	}
	e := &proto.Error{}
	if err := e.Decode(got[0].payload); err != nil {
		t.Fatal(err)
	}
	if e.Code != code {
		t.Fatalf("got %v, want %v", e, code)
	}
	return e
}

// decode reads the payload of the only answer.
func decode[M proto.Message](t tb, got []frame, m M) M {
	t.Helper()
	if len(got) != 1 || got[0].header.Command != m.Command() || !got[0].header.Answer {
		for _, f := range got {
			if f.header.Command == proto.CommandError {
				e := &proto.Error{}
				_ = e.Decode(f.payload)
				t.Logf("error: %v", e)
			}
		}
		t.Fatalf("got %d frames %v, want one answer to %v", len(got), got, m.Command())
	}
	if err := m.Decode(got[0].payload); err != nil {
		t.Fatal(err)
	}
	return m
}

// testBatch has n records of valueBytes.
func testBatch(t tb, n, valueBytes int) []byte {
	t.Helper()
	var builder proto.BatchBuilder
	builder.Reset(proto.CodecNone)
	for i := range n {
		value := make([]byte, valueBytes)
		binary.LittleEndian.PutUint32(append(value, 0, 0, 0, 0)[:4], uint32(i))
		if err := builder.Append(&proto.Record{Timestamp: 1_700_000_000_000, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(batch)
}

func produce(partition uint32, batch []byte) *proto.ProduceRequest {
	return &proto.ProduceRequest{TopicID: topicA, Partition: partition, LeaderEpoch: -1, Acks: proto.AcksDurable, Batch: batch}
}

func fetch(partition uint32, offset int64) *proto.FetchRequest {
	return &proto.FetchRequest{TopicID: topicA, Partition: partition, LeaderEpoch: -1, LastEpoch: -1, Offset: offset}
}

// tb is what the tests' helpers need of a test, be it ordinary or of rapid.
type tb interface {
	Helper()
	Logf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// reusingArena gives the same slabs again and again. Slabs are got by one thread
// and released by another.
type reusingArena struct{ home *ring.SPSC[*core.Slab] }

func newReusingArena() *reusingArena {
	return &reusingArena{home: ring.NewSPSC[*core.Slab](1024)}
}

func (a *reusingArena) Get(n int) *core.Slab {
	slab, ok := a.home.Pop()
	if !ok || len(slab.Bytes) < n {
		slab = core.NewSlab(core.HeapSlabs{}.Get(n).Bytes, a)
	}
	return slab.Issue()
}
func (a *reusingArena) Put(s *core.Slab)     { a.home.Push(s) }
func (a *reusingArena) Discard(s *core.Slab) { s.Recall() }
