package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// peer is the other end of a link, played by the test.
type peer struct {
	t    *testing.T
	conn net.Conn
}

// open makes a link and its peer, with hands shaken.
func open(t *testing.T) (*Link, *peer) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	p := &peer{t, far}
	go p.hello(proto.Magic, proto.Commands())
	l, err := Open(t.Context(), near, "1")
	if err != nil {
		t.Fatal(err)
	}
	return l, p
}

// receive reads one frame.
func (p *peer) receive() (proto.FrameHeader, []byte) {
	head := make([]byte, proto.FrameHeaderBytes)
	if _, err := io.ReadFull(p.conn, head); err != nil {
		p.t.Error(err)
		return proto.FrameHeader{}, nil
	}
	h, _, err := proto.DecodeFrameHeader(head, 1<<30)
	if err != nil {
		p.t.Error(err)
	}
	payload := make([]byte, h.PayloadBytes())
	if _, err := io.ReadFull(p.conn, payload); err != nil {
		p.t.Error(err)
	}
	return h, payload
}

func (p *peer) send(id uint64, m proto.Message) { p.conn.Write(proto.AppendFrame(nil, id, m)) }

func (p *peer) hello(magic uint32, commands []proto.CommandInfo) {
	h, _ := p.receive()
	answer := &proto.HelloResponse{Magic: magic, WindowBytes: 1000, WindowRequests: 3, Limits: proto.Limits{FrameBytesMax: 8 << 20}}
	for _, c := range commands {
		answer.Commands = append(answer.Commands, proto.CommandRange{Command: c.Command, VersionMin: c.VersionMin, VersionMax: c.VersionMax})
	}
	p.send(h.RequestID, answer)
}

func TestWhatIsNoBrokerIsRefused(t *testing.T) {
	for _, c := range []struct {
		magic    uint32
		commands []proto.CommandInfo
		want     string
	}{{7, proto.Commands(), "no broker"}, {proto.Magic, nil, "does not serve"}} {
		near, far := net.Pipe()
		go (&peer{t, far}).hello(c.magic, c.commands)
		if _, err := Open(t.Context(), near, "1"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v, want %q", err, c.want)
		}
		near.Close()
		far.Close()
	}
}

func TestSilenceEndsWithTheContext(t *testing.T) {
	l, p := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	go p.receive()
	if err := l.Call(ctx, &proto.PingRequest{}, &proto.PingResponse{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}

func TestRefusalIsTheBrokersOwn(t *testing.T) {
	l, p := open(t)
	go func() {
		h, _ := p.receive()
		p.send(h.RequestID, &proto.Error{Code: proto.CodeUnknownTopic, Text: "which one?"})
	}()
	err := l.Call(t.Context(), &proto.DescribeTopicRequest{Name: "x"}, &proto.DescribeTopicResponse{})
	if !errors.Is(err, proto.ErrUnknownTopic) || !strings.Contains(err.Error(), "which one?") {
		t.Errorf("the error is %v", err)
	}
}

// Frames come in pieces of any size, larger than the buffer or several at once, with PINGs and windows between them.
func TestFramesComeInPieces(t *testing.T) {
	for _, piece := range []int{1, 7, 1000, 1 << 20} {
		l, p := open(t)
		large := bytes.Repeat([]byte("0123456789"), 30_000)
		var stream []byte
		stream = proto.AppendFrame(stream, 5, &proto.FetchResponse{Batches: []byte("a")})
		stream = proto.AppendFrame(stream, proto.ServerIDBit|9, &proto.PingRequest{Opaque: 77})
		stream = proto.AppendFrame(stream, proto.ServerIDBit|10, &proto.CreditPush{WindowBytes: 5, WindowRequests: 2})
		stream = proto.AppendFrame(stream, 6, &proto.FetchResponse{Batches: large})
		stream = proto.AppendFrame(stream, 7, &proto.FetchResponse{})
		go func() {
			for len(stream) > 0 {
				n := min(piece, len(stream))
				p.conn.Write(stream[:n])
				stream = stream[n:]
			}
		}()
		var got []uint64
		for len(got) < 3 {
			f, ok, err := l.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				if err := l.Fill(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			var answer proto.FetchResponse
			if err := answer.Decode(f.Payload); err != nil {
				t.Fatal(err)
			}
			if f.RequestID == 6 && !bytes.Equal(answer.Batches, large) {
				t.Errorf("pieces of %d: the large frame came out wrong", piece)
			}
			got = append(got, f.RequestID)
		}
		if got[0] != 5 || got[1] != 6 || got[2] != 7 {
			t.Errorf("pieces of %d: the frames are %v", piece, got)
		}
		if l.window.bytesMax != 5 || l.window.requestsMax != 2 {
			t.Errorf("the window is %+v", l.window)
		}
		go l.Flush()
		h, payload := p.receive()
		var pong proto.PingResponse
		if err := pong.Decode(payload); err != nil || h.RequestID != proto.ServerIDBit|9 || !h.Answer || pong.Opaque != 77 {
			t.Errorf("the PING is answered with %+v, %+v, %v", h, pong, err)
		}
	}
}

func TestErrorOfTheConnectionEndsIt(t *testing.T) {
	l, p := open(t)
	go p.send(0, &proto.Error{Code: proto.CodeShuttingDown})
	if err := l.Fill(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Next(); !errors.Is(err, proto.ErrShuttingDown) {
		t.Errorf("the error is %v", err)
	}
}

// Heads, short tails and long ones must arrive in their order, also when many are gathered.
func TestGatheredFramesArriveInOrder(t *testing.T) {
	l, p := open(t)
	var want []byte
	for i := range 200 {
		batch := bytes.Repeat([]byte{byte(i)}, []int{10, copyBytesMax + 1, 50_000}[i%3])
		m := &proto.ProduceRequest{Partition: uint32(i), Batch: batch}
		want = proto.AppendFrame(want, uint64(i+100), m)
		header := proto.FrameHeader{Version: m.Command().Version(), Command: m.Command(), RequestID: uint64(i + 100)}
		l.SetOut(m.AppendHead(proto.AppendFrameHeader(l.Out(), header, m.Size())))
		l.Tail(batch)
	}
	go l.Flush()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.conn, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the bytes differ, %v", err)
	}
}
