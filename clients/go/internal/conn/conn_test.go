package conn

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// peer is the other side of a connection, played by the test.
type peer struct {
	t  *testing.T
	nc net.Conn
}

// pair is a connection that has shaken hands with a peer that grants a window.
func pair(t *testing.T, windowBytes uint64, windowRequests uint32) (*Conn, *peer) {
	t.Helper()
	near, far := net.Pipe()
	p := &peer{t, far}
	go func() {
		h, _ := p.frame()
		p.send(h.RequestID, &proto.HelloResponse{Magic: proto.Magic, ClusterID: "c", NodeID: 1, WindowBytes: windowBytes, WindowRequests: windowRequests,
			Limits: proto.Limits{FrameBytesMax: 1 << 20}, Commands: commands()})
	}()
	c, err := Dial(context.Background(), "peer:1", &Options{DialTimeout: 5 * time.Second, RequestTimeout: time.Minute, Keepalive: time.Minute,
		Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		far.Close()
		c.Close()
	})
	return c, p
}

func commands() (all []proto.CommandRange) {
	for _, info := range proto.Commands() {
		all = append(all, proto.CommandRange{Command: info.Command, VersionMin: 1, VersionMax: 1})
	}
	return all
}

// frame reads one frame; false when none comes for a moment.
func (p *peer) frame() (proto.FrameHeader, bool) {
	p.nc.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	head := make([]byte, proto.FrameHeaderBytes)
	if _, err := io.ReadFull(p.nc, head); err != nil {
		return proto.FrameHeader{}, false
	}
	h, _, err := proto.DecodeFrameHeader(head, 1<<20)
	if err != nil {
		p.t.Error(err)
	}
	p.nc.SetReadDeadline(time.Now().Add(5 * time.Second))
	io.CopyN(io.Discard, p.nc, int64(h.PayloadBytes()))
	return h, true
}

func (p *peer) send(id uint64, m proto.Message) { p.nc.Write(proto.AppendFrame(nil, id, m)) }

// start sends a METADATA request about a topic and returns where its outcome comes.
func start(t *testing.T, c *Conn, topic string) (*Request, chan error) {
	t.Helper()
	outcome := make(chan error, 2)
	r := &Request{Message: &proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{topic}},
		Done: func(_ []byte, err error) bool { outcome <- err; return false }}
	if err := c.Start(r); err != nil {
		t.Fatal(err)
	}
	return r, outcome
}

func TestWindowOfRequests(t *testing.T) {
	c, p := pair(t, 1<<20, 2)
	var outcomes []chan error
	for range 5 {
		_, o := start(t, c, "t")
		outcomes = append(outcomes, o)
	}
	first, _ := p.frame()
	second, ok := p.frame()
	if !ok || second.RequestID <= first.RequestID {
		t.Fatalf("%+v, %+v", first, second)
	}
	if h, more := p.frame(); more {
		t.Fatalf("a third request in a window of two: %+v", h)
	}
	p.send(first.RequestID, &proto.MetadataResponse{})
	if err := <-outcomes[0]; err != nil {
		t.Error(err)
	}
	if _, more := p.frame(); !more {
		t.Fatal("an answer has made no room")
	}
	p.send(proto.ServerIDBit|1, &proto.CreditPush{WindowBytes: 1 << 20, WindowRequests: 4})
	for range 2 {
		if _, more := p.frame(); !more {
			t.Fatal("credit has made no room")
		}
	}
}

func TestWindowOfBytes(t *testing.T) {
	c, p := pair(t, 100, 100)
	start(t, c, strings.Repeat("x", 60))
	r, abandoned := start(t, c, strings.Repeat("y", 60))
	_, last := start(t, c, "z") // in order: it does not overtake
	if _, ok := p.frame(); !ok {
		t.Fatal("no request came")
	}
	if h, more := p.frame(); more {
		t.Fatalf("more than the window: %+v", h)
	}
	if !c.Abandon(r) {
		t.Error("what waits was not dropped")
	}
	c.mu.Lock()
	c.wakeWriter()
	c.mu.Unlock()
	if _, ok := p.frame(); !ok {
		t.Fatal("the last request does not fit although it does")
	}
	p.nc.Close()
	if err := <-last; !errors.Is(err, ErrDisconnected) {
		t.Error(err)
	}
	<-c.done
	if len(abandoned) > 0 {
		t.Error("an abandoned request was told")
	}
}

// TestLargeRequestGoesAlone has a window smaller than one request, as a broker with many connections grants.
func TestLargeRequestGoesAlone(t *testing.T) {
	c, p := pair(t, 100, 100)
	start(t, c, strings.Repeat("x", 200))
	start(t, c, "y")
	h, ok := p.frame()
	if _, more := p.frame(); !ok || more {
		t.Fatalf("it came: %v, another beside it: %v", ok, more)
	}
	p.send(h.RequestID, &proto.MetadataResponse{})
	if _, ok := p.frame(); !ok {
		t.Fatal("the next one did not come")
	}
}

func TestPingIsAnswered(t *testing.T) {
	_, p := pair(t, 100, 100)
	p.send(proto.ServerIDBit|9, &proto.PingRequest{Opaque: 5})
	if h, ok := p.frame(); !ok || h.Command != proto.CommandPing || !h.Answer || h.RequestID != proto.ServerIDBit|9 {
		t.Errorf("%+v", h)
	}
}

// TestBrokenPeers end the connection, tell every request once, and say why.
func TestBrokenPeers(t *testing.T) {
	for name, breakIt := range map[string]func(p *peer, id uint64){
		"connection-wide error": func(p *peer, id uint64) { p.send(0, &proto.Error{Code: proto.CodeConnectionIdle, Text: "why"}) },
		"unasked answer":        func(p *peer, id uint64) { p.send(id+50, &proto.MetadataResponse{}) },
		"answer to another":     func(p *peer, id uint64) { p.send(id, &proto.PingResponse{}) },
		"length 0":              func(p *peer, id uint64) { p.nc.Write(make([]byte, 14)) },
		"huge length": func(p *peer, id uint64) {
			p.nc.Write([]byte("\xff\xff\xff\xff\x01\x84\x00\x00\x00\x00\x00\x00\x00\x02"))
		},
		"cut answer": func(p *peer, id uint64) {
			p.nc.Write(proto.AppendFrame(nil, id, &proto.MetadataResponse{})[:20])
			p.nc.Close()
		},
		"lost credit": func(p *peer, id uint64) { p.send(id+50, &proto.Error{Code: proto.CodeOverloaded}) },
	} {
		t.Run(name, func(t *testing.T) {
			c, p := pair(t, 1000, 100)
			_, one := start(t, c, "a")
			h, _ := p.frame()
			go breakIt(p, h.RequestID)
			if err := <-one; !errors.Is(err, ErrDisconnected) || name == "connection-wide error" && !errors.Is(err, proto.ErrConnectionIdle) {
				t.Error(err)
			} else if code, coded := proto.CodeOf(err); coded != (name == "connection-wide error") {
				t.Errorf("%v carries %v, as if the broker had answered the request with it: %v", err, code, coded)
			}
			<-c.done
			if len(one) > 0 {
				t.Error("told twice")
			}
			if err := c.Start(&Request{Message: &proto.PingRequest{}}); !errors.Is(err, ErrDisconnected) {
				t.Error(err)
			}
		})
	}
}

func TestNoBrokerBehindThePort(t *testing.T) {
	for name, says := range map[string]string{"http": "HTTP/1.1 400 Bad Request\r\n\r\n", "nothing": "", "ssh": "SSH-2.0-OpenSSH_9.6\r\n"} {
		near, far := net.Pipe()
		go func() {
			io.ReadFull(far, make([]byte, 20))
			io.WriteString(far, says)
			far.Close()
		}()
		_, err := Dial(context.Background(), "peer:1", &Options{DialTimeout: time.Second, Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
		if err == nil || !strings.Contains(err.Error(), "peer:1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
