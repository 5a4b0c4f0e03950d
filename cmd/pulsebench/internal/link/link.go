package link

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

const (
	// readBufferBytes holds many answers to PRODUCE; it grows for the larger ones of FETCH.
	readBufferBytes = 64 << 10

	// readBufferFrames is how many frames of a size the buffer holds once one has come that it had no room for. The
	// more, the seldomer the part of a frame at its end has to be moved to its front.
	readBufferFrames = 4

	// copyBytesMax is the size up to which the end of a frame is copied behind its head. A longer one is sent from where
	// it lies: that costs an entry in the list of pieces instead of the copy.
	copyBytesMax = 4 << 10

	// frameBytesSlack is how much longer than the longest request an answer may be. Answers carry batches that were
	// sent in requests, under a head of their own.
	frameBytesSlack = 1 << 20
)

// Frame is a frame that has arrived. Payload is a slice of the link's buffer, valid until the next Fill.
type Frame struct {
	proto.FrameHeader
	Payload []byte
}

// Link is a connection after its handshake.
type Link struct {
	conn     net.Conn
	hello    proto.HelloResponse
	frameMax uint32
	window   window
	nextID   uint64

	in          []byte
	read, wrote int // in[read:wrote] has arrived and has not been handed out

	out    []byte      // gathered heads and small frames
	cut    int         // out[cut:] is not in pieces yet
	pieces net.Buffers // what goes before out[cut:]
	spare  net.Buffers // the array of pieces, used again
}

// Dial connects and shakes hands; ctx bounds both.
func Dial(ctx context.Context, address, version string) (*Link, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l, err := Open(ctx, conn, version)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return l, nil
}

// Open shakes hands on a connection, which stays the caller's when it fails.
func Open(ctx context.Context, conn net.Conn, version string) (*Link, error) {
	l := &Link{conn: conn, in: make([]byte, readBufferBytes), frameMax: readBufferBytes}
	l.window.requestsMax = 1
	if err := l.Call(ctx, &proto.HelloRequest{Magic: proto.Magic, ClientName: "pulsebench", ClientVersion: version}, &l.hello); err != nil {
		return nil, err
	}
	if l.hello.Magic != proto.Magic {
		return nil, fmt.Errorf("what answers is no broker: magic %#08x", l.hello.Magic)
	}
	for _, command := range []proto.Command{proto.CommandMetadata, proto.CommandProduce, proto.CommandFetch, proto.CommandListOffsets} {
		if !l.serves(command) {
			return nil, fmt.Errorf("the broker does not serve %v in version %d", command, command.Version())
		}
	}
	l.frameMax = l.hello.Limits.FrameBytesMax + frameBytesSlack
	l.window.bytesMax, l.window.requestsMax = l.hello.WindowBytes, l.hello.WindowRequests
	return l, nil
}

func (l *Link) serves(command proto.Command) bool {
	for _, c := range l.hello.Commands {
		if c.Command == command {
			return c.VersionMin <= command.Version() && command.Version() <= c.VersionMax
		}
	}
	return false
}

// Hello is what the broker said of itself.
func (l *Link) Hello() *proto.HelloResponse { return &l.hello }

// Close closes the connection.
func (l *Link) Close() error { return l.conn.Close() }

// SetReadDeadline bounds Fill. A time that has passed ends one that waits.
func (l *Link) SetReadDeadline(t time.Time) error { return l.conn.SetReadDeadline(t) }

// NextID gives out a request id. Those of Call are among them, so a user that makes its own ids sets aside the low
// 48 bits for them.
func (l *Link) NextID() uint64 {
	l.nextID++
	return l.nextID
}

// Admits reports whether the window has room for a request of so many payload bytes.
func (l *Link) Admits(payloadBytes int) bool { return l.window.admits(payloadBytes) }

// Take counts a request that is being sent against the window.
func (l *Link) Take(payloadBytes int) { l.window.take(payloadBytes) }

// GiveBack counts the last frame of its answer.
func (l *Link) GiveBack(payloadBytes int) { l.window.giveBack(payloadBytes) }

// Out is where heads of frames are appended to; SetOut hands the longer slice back.
func (l *Link) Out() []byte { return l.out }

// SetOut hands back what Out gave, with more behind it.
func (l *Link) SetOut(b []byte) { l.out = b }

// Append gathers a message.
func (l *Link) Append(id uint64, m proto.Message) { l.out = proto.AppendFrame(l.out, id, m) }

// Tail gathers the end of a frame whose head has been appended. Tail must not change until Flush returns.
func (l *Link) Tail(tail []byte) {
	if len(tail) <= copyBytesMax {
		l.out = append(l.out, tail...)
		return
	}
	l.pieces = append(l.pieces, l.out[l.cut:len(l.out):len(l.out)], tail)
	l.cut = len(l.out)
}

// Flush sends what has been gathered.
func (l *Link) Flush() error {
	if len(l.pieces) == 0 {
		if len(l.out) == 0 {
			return nil
		}
		_, err := l.conn.Write(l.out)
		l.out = l.out[:0]
		return err
	}
	if len(l.out) > l.cut {
		l.pieces = append(l.pieces, l.out[l.cut:])
	}
	l.spare = l.pieces[:0] // WriteTo moves pieces along its array
	_, err := l.pieces.WriteTo(l.conn)
	l.pieces, l.out, l.cut = l.spare, l.out[:0], 0
	return err
}

// Fill waits for more bytes.
func (l *Link) Fill() error {
	if l.read == l.wrote {
		l.read, l.wrote = 0, 0
	}
	if l.wrote == len(l.in) {
		l.makeRoom()
	}
	n, err := l.conn.Read(l.in[l.wrote:])
	l.wrote += n
	if n > 0 {
		return nil
	}
	return err
}

// Buffered is how many bytes have arrived that Next has not handed out.
func (l *Link) Buffered() int { return l.wrote - l.read }

// makeRoom moves a frame that has arrived in part to the front of the buffer, or into a larger one.
func (l *Link) makeRoom() {
	into := l.in
	if h, ok, _ := proto.DecodeFrameHeader(l.in[l.read:l.wrote], l.frameMax); ok && h.FrameBytes() > len(l.in) {
		into = make([]byte, readBufferFrames*h.FrameBytes())
	}
	l.wrote = copy(into, l.in[l.read:l.wrote])
	l.read, l.in = 0, into
}

// Next hands out a frame; false when none has arrived as a whole. PINGs are answered, with the next Flush, and CREDIT
// is heeded before it looks further. An ERROR about the connection as a whole is an error.
func (l *Link) Next() (Frame, bool, error) {
	for {
		b := l.in[l.read:l.wrote]
		h, ok, err := proto.DecodeFrameHeader(b, l.frameMax)
		if err != nil || !ok || len(b) < h.FrameBytes() {
			return Frame{}, false, err
		}
		l.read += h.FrameBytes()
		f := Frame{h, b[proto.FrameHeaderBytes:h.FrameBytes()]}
		if mine, err := l.control(&f); err != nil {
			return Frame{}, false, err
		} else if !mine {
			return f, true, nil
		}
	}
}

// control handles the frames that are about the connection.
func (l *Link) control(f *Frame) (bool, error) {
	switch {
	case f.Command == proto.CommandPing && !f.Answer:
		var ping proto.PingRequest
		if err := ping.Decode(f.Payload); err != nil {
			return true, err
		}
		l.Append(f.RequestID, &proto.PingResponse{Opaque: ping.Opaque})
		return true, nil
	case f.Command == proto.CommandCredit && !f.Answer:
		var credit proto.CreditPush
		if err := credit.Decode(f.Payload); err != nil {
			return true, err
		}
		l.window.bytesMax, l.window.requestsMax = credit.WindowBytes, credit.WindowRequests
		return true, nil
	case f.Command == proto.CommandError && f.RequestID == 0:
		return true, DecodeError(f.Payload)
	}
	return false, nil
}

// DecodeError reads the payload of an ERROR.
func DecodeError(payload []byte) error {
	refusal := new(proto.Error)
	if err := refusal.Decode(payload); err != nil {
		return err
	}
	return refusal
}

// Call sends a request and waits for its answer. Nothing else may be unanswered.
func (l *Link) Call(ctx context.Context, request, answer proto.Message) error {
	stop := context.AfterFunc(ctx, func() { l.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer func() {
		if stop() {
			return
		}
		l.conn.SetReadDeadline(time.Time{})
	}()
	id := l.NextID()
	l.Append(id, request)
	if err := l.Flush(); err != nil {
		return err
	}
	for {
		f, ok, err := l.Next()
		if err != nil {
			return err
		}
		if !ok {
			if err := l.Flush(); err != nil { // a PING's answer
				return err
			}
			if err := l.Fill(); err != nil {
				if ctx.Err() != nil {
					return fmt.Errorf("%v: no answer: %w", request.Command(), context.Cause(ctx))
				}
				return fmt.Errorf("%v: %w", request.Command(), err)
			}
			continue
		}
		switch {
		case f.RequestID != id:
			return fmt.Errorf("an answer to request %d, asked was %d", f.RequestID, id)
		case f.Command == proto.CommandError:
			return DecodeError(f.Payload)
		case f.Command != request.Command() || !f.Answer:
			return fmt.Errorf("%v is answered with %v", request.Command(), f.Command)
		}
		return answer.Decode(f.Payload)
	}
}
