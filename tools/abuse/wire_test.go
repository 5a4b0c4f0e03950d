package abuse

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// helloFrame greets a broker.
var helloFrame = proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic, ClientName: "abuse"})

// raw is a connection on which nothing was said.
func (b *broker) raw(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", b.process.Address)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(answerWait))
	t.Cleanup(func() { c.Close() })
	return c
}

// dial is a connection that has said HELLO. While the windows of others are still being taken back, it tries again.
func (b *broker) dial(t *testing.T) net.Conn {
	t.Helper()
	for deadline := time.Now().Add(answerWait); ; time.Sleep(20 * time.Millisecond) {
		c := b.raw(t)
		write(t, c, helloFrame)
		h, p := answer(t, c)
		if h.Command == proto.CommandHello {
			return c
		}
		c.Close()
		if e := refusal(p); e.Code != proto.CodeTooManyConnections || time.Now().After(deadline) {
			t.Fatalf("HELLO was answered with %v, %v", h.Command, e)
		}
	}
}

func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// answer is the next frame that is no request of the broker.
func answer(t *testing.T, c net.Conn) (proto.FrameHeader, []byte) {
	t.Helper()
	h, p, err := readFrame(c)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return h, p
}

// answered is a frame that came.
type answered struct {
	header  proto.FrameHeader
	payload []byte
}

// answers are those to the requests [first, next), in whatever order they come.
func answers(t *testing.T, c net.Conn, first, next uint64) map[uint64]answered {
	t.Helper()
	got := map[uint64]answered{}
	for len(got) < int(next-first) {
		if h, p := answer(t, c); h.RequestID >= first && h.RequestID < next {
			got[h.RequestID] = answered{h, p}
		}
	}
	return got
}

// answerTo is the answer to one request; others are passed over.
func answerTo(t *testing.T, c net.Conn, id uint64) (proto.FrameHeader, []byte) {
	t.Helper()
	for {
		if h, p := answer(t, c); h.RequestID == id {
			return h, p
		}
	}
}

func readFrame(c net.Conn) (proto.FrameHeader, []byte, error) {
	for {
		head := make([]byte, proto.FrameHeaderBytes)
		if _, err := io.ReadFull(c, head); err != nil {
			return proto.FrameHeader{}, nil, err
		}
		h, _, err := proto.DecodeFrameHeader(head, 1<<30)
		if err != nil {
			return h, nil, err
		}
		payload := make([]byte, h.PayloadBytes())
		if _, err := io.ReadFull(c, payload); err != nil {
			return h, nil, err
		}
		if h.Answer || h.RequestID&proto.ServerIDBit == 0 {
			return h, payload, nil
		}
	}
}

// refusal is the ERROR of a payload.
func refusal(p []byte) *proto.Error {
	e := new(proto.Error)
	if err := e.Decode(p); err != nil {
		e.Text = err.Error()
	}
	return e
}

// pingID is above every other request id of these tests.
const pingID = 1 << 40

// ping checks that a connection is still served.
func ping(c net.Conn) error {
	if _, err := c.Write(proto.AppendFrame(nil, pingID, &proto.PingRequest{Opaque: 7})); err != nil {
		return err
	}
	for {
		h, _, err := readFrame(c)
		if err != nil || h.RequestID == pingID {
			return err
		}
	}
}

// closed waits until the broker has closed a connection, and returns the last ERROR that it said.
func closed(c net.Conn, within time.Duration) (last *proto.Error, err error) {
	_ = c.SetReadDeadline(time.Now().Add(within))
	for {
		h, p, err := readFrame(c)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return last, err
		case err != nil:
			return last, nil // closed or reset, whichever came
		case h.Command == proto.CommandError:
			last = refusal(p)
		}
	}
}

// reset ends a connection as a crash of the client's machine does.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}
