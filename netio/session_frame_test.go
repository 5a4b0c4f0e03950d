package netio

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// ping checks that the connection still serves.
func (b *bench) ping(s *Session, c *testConn) {
	b.t.Helper()
	if got := decode(b.t, b.ask(s, c, 99, &proto.PingRequest{Opaque: 4711}), &proto.PingResponse{}); got.Opaque != 4711 {
		b.t.Fatalf("PING was answered with %d", got.Opaque)
	}
}

// wantEnd checks that the session has said its last word and closes.
func (b *bench) wantEnd(s *Session, c *testConn, id uint64, code proto.Code) *proto.Error {
	b.t.Helper()
	b.reactor.Flush()
	e := wantError(b.t, frames(b.t, c.sent), id, code)
	if !c.half {
		b.t.Fatal("the client was not told that no more comes")
	}
	b.receive(s, bytes.Repeat([]byte{0xff}, 100))
	if len(frames(b.t, c.sent)) != 1 {
		b.t.Fatal("an ended session said more")
	}
	b.clock.now.Add(lingerTime)
	b.reactor.Tick()
	if !c.closed {
		b.t.Fatal("the connection was not closed after the linger time")
	}
	return e
}

func TestBrokenFramingEndsWithOneError(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		code  proto.Code
	}{
		{"length 0", []byte{0, 0, 0, 0}, proto.CodeMalformedRequest},
		{"length 9", []byte{0, 0, 0, 9}, proto.CodeMalformedRequest},
		{"length -1", []byte{0xff, 0xff, 0xff, 0xff}, proto.CodeFrameTooLarge},
		{"length 2^31-1", []byte{0x7f, 0xff, 0xff, 0xff}, proto.CodeFrameTooLarge},
		{"one above", binary.BigEndian.AppendUint32(nil, lengthMax+1), proto.CodeFrameTooLarge},
		{"http", []byte("GET / HTTP/1.1\r\n\r\n"), proto.CodeFrameTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, benchOptions{})
			s, conn := b.connect()
			b.receive(s, c.bytes)
			b.wantEnd(s, conn, 0, c.code)

			s, conn = b.open()
			b.receive(s, c.bytes)
			b.wantEnd(s, conn, 0, c.code)
		})
	}
}

func TestBeforeHello(t *testing.T) {
	t.Run("another command", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		s, c := b.open()
		b.receive(s, proto.AppendFrame(nil, 9, &proto.PingRequest{}))
		b.wantEnd(s, c, 9, proto.CodeHandshakeRequired)
	})
	t.Run("a frame above the small limit", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		s, c := b.open()
		b.receive(s, binary.BigEndian.AppendUint32(nil, core.HandshakeFrameBytesMax+1))
		if e := b.wantEnd(s, c, 0, proto.CodeFrameTooLarge); e.Limit != core.HandshakeFrameBytesMax {
			t.Fatalf("limit %d", e.Limit)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		s, c := b.open()
		b.clock.now.Add(testSettings().HandshakeTimeout - 1)
		b.reactor.Tick()
		if len(c.sent) > 0 {
			t.Fatal("closed too early")
		}
		b.clock.now.Add(1)
		b.reactor.Tick()
		b.wantEnd(s, c, 0, proto.CodeHandshakeRequired)
	})
	t.Run("slowly, byte by byte", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		s, c := b.open()
		for _, at := range proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic})[:12] {
			b.receive(s, []byte{at})
			b.clock.now.Add(1e9)
			b.reactor.Tick()
		}
		b.wantEnd(s, c, 0, proto.CodeHandshakeRequired)
	})
	t.Run("wrong magic", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		s, c := b.open()
		b.receive(s, proto.AppendFrame(nil, 3, &proto.HelloRequest{Magic: 1}))
		b.wantEnd(s, c, 3, proto.CodeMalformedRequest)
	})
}

// HELLO is answered whatever version its header names, and a second time.
func TestHello(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.open()
	hello := proto.AppendFrame(nil, 77, &proto.HelloRequest{Magic: proto.Magic, ClientName: "x"})
	hello[4] = 250
	b.receive(s, hello)
	b.receive(s, hello)
	got := frames(t, c.sent)
	if len(got) != 2 || got[0].header.RequestID != 77 || !bytes.Equal(got[0].payload, got[1].payload) {
		t.Fatalf("two HELLOs were answered with %v", got)
	}
	m := decode(t, got[:1], &proto.HelloResponse{})
	if m.Magic != proto.Magic || m.ClusterID != "test-cluster" || m.NodeID != 1 || m.KeepaliveMs != 30_000 ||
		m.WindowBytes != 8<<20 || m.WindowRequests != 1024 || m.Limits.FrameBytesMax != lengthMax {
		t.Fatalf("HELLO: %+v", m)
	}
	if len(m.Commands) != len(proto.Commands()) {
		t.Fatalf("%d commands announced, %d served", len(m.Commands), len(proto.Commands()))
	}
	if b.reactor.windows.holders != 1 {
		t.Fatal("the second HELLO took a second window")
	}
}

// What is wrong with one request leaves the connection open.
func TestWrongRequestsKeepTheConnection(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	raw := func(h proto.FrameHeader, payload string) []byte {
		return append(proto.AppendFrameHeader(nil, h, len(payload)), payload...)
	}
	for _, x := range []struct {
		name  string
		bytes []byte
		id    uint64
		code  proto.Code
	}{
		{"unknown command", raw(proto.FrameHeader{Command: 99, Version: 1, RequestID: 5}, "whatever"), 5, proto.CodeUnknownCommand},
		{"auth", raw(proto.FrameHeader{Command: proto.CommandAuth, Version: 1, RequestID: 5}, ""), 5, proto.CodeUnknownCommand},
		{"a push of the broker", raw(proto.FrameHeader{Command: proto.CommandDeliver, Version: 1, RequestID: 5}, "x"), 5, proto.CodeUnknownCommand},
		{"unknown version", raw(proto.FrameHeader{Command: proto.CommandFetch, Version: 9, RequestID: 6}, "abc"), 6, proto.CodeUnsupportedVersion},
		{"version 0", raw(proto.FrameHeader{Command: proto.CommandProduce, Version: 0, RequestID: 6}, "abc"), 6, proto.CodeUnsupportedVersion},
		{"an answer", raw(proto.FrameHeader{Command: proto.CommandFetch, Version: 1, RequestID: 7, Answer: true}, "abc"), 7, proto.CodeMalformedRequest},
		{"an id of the broker", raw(proto.FrameHeader{Command: proto.CommandMetadata, Version: 1, RequestID: 1<<63 | 8}, "abc"), 1<<63 | 8, proto.CodeInvalidRequest},
		{"empty payload", raw(proto.FrameHeader{Command: proto.CommandProduce, Version: 1, RequestID: 9}, ""), 9, proto.CodeMalformedRequest},
		{"bytes too many", raw(proto.FrameHeader{Command: proto.CommandPing, Version: 1, RequestID: 9}, "0123456789"), 9, proto.CodeMalformedRequest},
	} {
		c.sent = nil
		b.receive(s, x.bytes)
		e := wantError(t, frames(t, c.sent), x.id, x.code)
		if x.code == proto.CodeUnsupportedVersion && (e.Versions == nil || e.Versions.VersionMax != 1) {
			t.Errorf("%s: %+v does not say which versions are served", x.name, e)
		}
		b.ping(s, c)
		if s.pendings.count != 0 || s.window.bytes != 0 {
			t.Fatalf("%s: %d requests and %d bytes stay unanswered", x.name, s.pendings.count, s.window.bytes)
		}
	}
}

// requests is one of each kind, which all succeed.
func requests(t tb) []proto.Message {
	batch := testBatch(t, 3, 50)
	return []proto.Message{
		&proto.HelloRequest{Magic: proto.Magic, ClientName: "again"},
		&proto.PingRequest{Opaque: 7},
		&proto.MetadataRequest{},
		&proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{"alpha", "no such", ""}},
		&proto.MetadataRequest{Selection: proto.TopicSelectionIDs, IDs: [][16]byte{topicB, {9}}},
		produce(1, batch),
		produce(2, batch),
		fetch(1, 0),
		fetch(3, 0),
		&proto.ListOffsetsRequest{Items: []proto.ListOffsetsItem{{TopicID: topicA, Partition: 1, Kind: proto.OffsetKindLatest}, {TopicID: topicA, Partition: 900}}},
		&proto.DescribeTopicRequest{Name: "alpha"},
		&proto.CreateTopicRequest{Name: "gamma", Partitions: 3, Configs: []proto.TopicConfig{{Key: "k", Value: "v"}}},
		&proto.DeleteTopicRequest{Name: "gamma"},
		&proto.AlterTopicRequest{Name: "alpha", Unset: []string{"x"}},
		&proto.InitProducerRequest{},
		&proto.DeleteRecordsRequest{TopicID: topicA, Partition: 1, BeforeOffset: 1},
		&proto.SubscribeRequest{Add: []proto.SubscribePartition{{TopicID: topicA, Partition: 1, Cookie: 5}}, CreditBytes: 1 << 20},
	}
}

// Every command cut at every byte: with its length corrected it is refused and
// the connection stays; with its length kept nothing happens until the rest comes.
func TestTruncatedAtEveryByte(t *testing.T) {
	for i, m := range requests(t) {
		whole := proto.AppendFrame(nil, 50, m)
		for cut := proto.FrameHeaderBytes; cut < len(whole); cut++ {
			b := newBench(t, benchOptions{shards: 2})
			s, c := b.connect()
			short := bytes.Clone(whole[:cut])
			binary.BigEndian.PutUint32(short, uint32(cut-4))
			b.receive(s, short)
			b.run()
			got := frames(t, c.sent)
			if len(got) != 1 || got[0].header.Command != proto.CommandError {
				t.Fatalf("request %d (%v) cut to %d of %d bytes was answered with %v", i, m.Command(), cut, len(whole), got)
			}
			if m.Command() == proto.CommandHello {
				continue // a HELLO that cannot be read ends the connection
			}
			b.ping(s, c)
			if s.pendings.count != 0 || s.window.bytes != 0 || b.arenas[0].out.Load()+b.arenas[1].out.Load() != 0 {
				t.Fatalf("request %d (%v) cut to %d of %d bytes left something behind", i, m.Command(), cut, len(whole))
			}
		}
		for cut := range whole {
			b := newBench(t, benchOptions{shards: 2})
			s, c := b.connect()
			b.receive(s, whole[:cut])
			b.run()
			if len(c.sent) > 0 {
				t.Fatalf("request %d (%v) was answered after %d of %d bytes", i, m.Command(), cut, len(whole))
			}
			s.Lost()
			b.reactor.Flush()
			if n := b.arenas[0].out.Load() + b.arenas[1].out.Load(); n != 0 {
				t.Fatalf("%d slabs are lost after %d of %d bytes", n, cut, len(whole))
			}
		}
	}
}

// transcript feeds a stream in pieces and returns everything that was sent.
func transcript(t tb, stream []byte, cuts func(left int) int) []byte {
	b := newBench(t, benchOptions{shards: 3, settings: func(s *Settings) { s.Keepalive, s.IdleTimeout = 1e18, 1e18 }})
	s, c := b.open()
	for len(stream) > 0 {
		n := cuts(len(stream))
		s.Receive(stream[:n])
		stream = stream[n:]
	}
	b.reactor.Flush()
	b.run()
	b.receive(s, []byte{0, 0, 0, 3, 1, 2, 3})
	for i, arena := range b.arenas {
		if s.in.phase != phaseBatch && arena.out.Load() != 0 {
			t.Fatalf("shard %d: %d slabs are lost", i, arena.out.Load())
		}
		if b.shards[i].parcels != 0 {
			t.Fatalf("shard %d: %d parcels are lost", i, b.shards[i].parcels)
		}
	}
	return c.sent
}

// However a stream is cut, the same requests are understood: every frame of
// several kinds, good and bad, ended by broken framing.
func TestSplitsDoNotMatter(t *testing.T) {
	var stream []byte
	id := uint64(1)
	add := func(m proto.Message) { stream = proto.AppendFrame(stream, id, m); id++ }
	add(&proto.HelloRequest{Magic: proto.Magic})
	bad := testBatch(t, 2, 100)
	bad[len(bad)-1] ^= 1
	for _, m := range requests(t) {
		add(m)
	}
	add(produce(0, bad))
	add(produce(0, bad[:70]))
	add(produce(1, testBatch(t, 2, 40<<10)))
	add(&proto.ProduceRequest{TopicID: core.TopicID{7}, Batch: testBatch(t, 1, 5000)})
	stream = append(proto.AppendFrameHeader(stream, proto.FrameHeader{Command: 99, Version: 1, RequestID: id}, 30), make([]byte, 30)...)
	add(&proto.PingRequest{Opaque: 1})
	whole := transcript(t, stream, func(left int) int { return left })
	if n := len(frames(t, whole)); n < 20 {
		t.Fatalf("only %d frames were sent", n)
	}
	if single := transcript(t, stream, func(int) int { return 1 }); !bytes.Equal(single, whole) {
		t.Fatalf("byte by byte the answers differ: %d bytes, want %d", len(single), len(whole))
	}
	rapid.Check(t, func(rt *rapid.T) {
		longest := rapid.SampledFrom([]int{3, 20, 100, 5000, 70000}).Draw(rt, "longest")
		got := transcript(t, stream, func(left int) int { return rapid.IntRange(1, min(left, longest)).Draw(rt, "n") })
		if !bytes.Equal(got, whole) {
			rt.Fatalf("the answers differ: %d bytes, want %d", len(got), len(whole))
		}
	})
}

// Whatever arrives, the session lives, loses nothing and says only whole frames.
func FuzzSession(f *testing.F) {
	hello := proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic})
	for i, m := range requests(f) {
		f.Add(proto.AppendFrame(bytes.Clone(hello), uint64(i+2), m), uint16(7))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint16(1))
	f.Fuzz(func(t *testing.T, stream []byte, step uint16) {
		b := newBench(t, benchOptions{shards: 2})
		s, c := b.open()
		for len(stream) > 0 {
			n := min(len(stream), 1+int(step))
			b.receive(s, stream[:n])
			b.run()
			stream = stream[n:]
		}
		frames(t, c.sent)
		s.Lost()
		b.run()
		for i, arena := range b.arenas {
			if arena.out.Load() != 0 || b.shards[i].parcels != 0 {
				t.Fatalf("shard %d: %d slabs and %d parcels are lost", i, arena.out.Load(), b.shards[i].parcels)
			}
		}
		if b.reactor.windows.granted != 0 {
			t.Fatalf("%d bytes of windows are lost", b.reactor.windows.granted)
		}
	})
}
