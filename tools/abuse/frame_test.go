package abuse

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// truncated sends every command cut short at every byte, as a frame of that length, and all of them before HELLO.
func (b *broker) truncated(t *testing.T) {
	end := b.end(t, "scapegoat")
	for _, r := range b.requests(t)[1:] {
		c := b.raw(t)
		write(t, c, r.frame)
		if h, p := answer(t, c); h.Command != proto.CommandError || refusal(p).Code != proto.CodeHandshakeRequired {
			t.Errorf("%s before HELLO: answered with %v", r.name, h.Command)
		}
		c.Close()
		c = b.dial(t)
		sent := 0
		for n := proto.FrameHeaderBytes; n < len(r.frame); n++ {
			cut := slices.Clone(r.frame[:n])
			binary.BigEndian.PutUint32(cut, uint32(n-4))
			binary.BigEndian.PutUint64(cut[6:], uint64(n)+1000)
			write(t, c, cut)
			sent++
		}
		refused := 0
		write(t, c, proto.AppendFrame(nil, pingID, &proto.PingRequest{}))
		for {
			h, p, err := readFrame(c)
			if err != nil {
				t.Fatalf("%s, truncated at every byte: the connection ended: %v", r.name, err)
			}
			if h.RequestID == pingID {
				break
			}
			if h.Command != proto.CommandError {
				t.Errorf("%s, cut to %d bytes: answered with %v", r.name, h.RequestID-1000, h.Command)
			} else if code := refusal(p).Code; code != proto.CodeMalformedRequest && code != proto.CodeCorruptBatch {
				t.Errorf("%s, cut to %d bytes: refused with %v", r.name, h.RequestID-1000, code)
			}
			refused++
		}
		if refused != sent {
			t.Errorf("%s, truncated at every byte: %d of %d were refused", r.name, refused, sent)
		}
		c.Close()
	}
	if got := b.end(t, "scapegoat"); got != end {
		t.Errorf("truncated requests moved the log's end from %d to %d", end, got)
	}
}

// resets ends the connection at every byte of every command, as a crash and as a proper close do. Nothing of a frame
// that did not come whole may be applied.
func (b *broker) resets(t *testing.T) {
	end, topics := b.end(t, "scapegoat"), b.topics(t)
	for _, r := range b.requests(t) {
		for n := 1; n < len(r.frame); n += pick(5, 1) {
			for _, crash := range []bool{true, false} {
				c := b.raw(t)
				if r.name != "HELLO" {
					c.Close()
					c = b.dial(t)
				}
				write(t, c, r.frame[:n])
				if crash {
					reset(c)
				} else {
					_ = c.(*net.TCPConn).CloseWrite() // the broker reads all of it, then the end
					c.Close()
				}
			}
		}
	}
	if got := b.end(t, "scapegoat"); got != end {
		t.Errorf("requests that did not come whole moved the log's end from %d to %d", end, got)
	}
	if got := b.topics(t); !slices.Equal(got, topics) {
		t.Errorf("requests that did not come whole made topics: %q, before %q", got, topics)
	}
}

// inFlight resets connections right behind whole requests: each batch is there as a whole, or not at all.
func (b *broker) inFlight(t *testing.T) {
	id := b.create(t, "in-flight", nil)
	one := batch(t, proto.CodecNone, []byte("1"), []byte("2"), []byte("3"), []byte("4"), []byte("5"))
	for i := range pick(60, 1000) {
		c := b.dial(t)
		for k := range 4 {
			write(t, c, produce(id, uint64(10+k), one))
		}
		write(t, c, produce(id, 20, one)[:i%150+1])
		reset(c)
	}
	if end := b.end(t, "in-flight"); end%5 != 0 {
		t.Errorf("batches of 5 records made a log of %d", end)
	}
}

// garbage is no protocol at all, in any length.
func (b *broker) garbage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for i := range pick(60, 2000) {
		c := b.raw(t)
		if i%4 >= 2 {
			c.Close()
			c = b.dial(t)
		}
		junk := make([]byte, 1+random.IntN(5000))
		for j := range junk {
			junk[j] = byte(random.Uint32())
		}
		if i%2 == 0 { // a length that is allowed, so that the rest is looked at
			binary.BigEndian.PutUint32(junk, uint32(len(junk)))
		}
		_, _ = c.Write(junk)
		reset(c)
	}
}

// lengths are zero, negative, giant, or larger than before a login: one typed error, and the end.
func (b *broker) lengths(t *testing.T) {
	for _, length := range []uint32{0, 1, 9, 32 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		for _, greeted := range []bool{false, true} {
			c := b.raw(t)
			if greeted {
				c.Close()
				c = b.dial(t)
			}
			write(t, c, append(binary.BigEndian.AppendUint32(nil, length), make([]byte, 10)...))
			last, err := closed(c, handshakeTimeout+slack)
			if err != nil || last == nil || last.Code != proto.CodeFrameTooLarge && last.Code != proto.CodeMalformedRequest {
				t.Errorf("length %d, greeted %v: %v, %v", length, greeted, last, err)
			}
			c.Close()
		}
	}
	// What is allowed afterwards is not allowed before HELLO.
	c := b.raw(t)
	write(t, c, append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, 10)...))
	if last, err := closed(c, handshakeTimeout+slack); err != nil || last == nil || last.Code != proto.CodeFrameTooLarge {
		t.Errorf("a frame of 1 MiB before HELLO: %v, %v", last, err)
	}
}

// unknown commands and versions are an error for that request, and the connection stays.
func (b *broker) unknown(t *testing.T) {
	c := b.dial(t)
	known := map[proto.Command]bool{}
	for _, r := range proto.Commands() {
		known[r.Command] = r.Request
	}
	id := uint64(10)
	send := func(version uint8, command proto.Command, want proto.Code) {
		t.Helper()
		id++
		h := proto.FrameHeader{Version: version, Command: command, RequestID: id}
		write(t, c, append(proto.AppendFrameHeader(nil, h, 3), 1, 2, 3))
		if h, p := answerTo(t, c, id); h.Command != proto.CommandError || refusal(p).Code != want {
			t.Errorf("command %d, version %d: answered with %v, %v, expected %v", command, version, h.Command, refusal(p).Code, want)
		}
	}
	for command := range proto.Command(128) {
		if !known[command] {
			send(1, command, proto.CodeUnknownCommand)
			continue
		}
		if command == proto.CommandHello {
			continue // its layout never changes
		}
		for _, version := range []uint8{0, command.Version() + 1, 255} {
			send(version, command, proto.CodeUnsupportedVersion)
		}
	}
	if err := ping(c); err != nil {
		t.Error(err)
	}
}

// numbers puts counts and lengths of every size at every byte of every command, so that each list and string gets them:
// 2^31-1, 2^31, 2^63, and forms that are longer than they need be.
func (b *broker) numbers(t *testing.T) {
	values := [][]byte{
		{0}, {0xff, 0xff, 0xff, 0xff, 0x07}, {0x80, 0x80, 0x80, 0x80, 0x08}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x80, 0}, {0x81, 0x80, 0},
	}
	for _, r := range b.requests(t) {
		if r.name == "PRODUCE" {
			continue // its bytes are a batch; below
		}
		c := b.dial(t)
		for at := proto.FrameHeaderBytes; at < len(r.frame); at++ {
			for i, v := range values {
				frame := append(slices.Clone(r.frame[:at]), v...)
				frame = append(frame, r.frame[at+1:]...)
				if r.name == "CREATE_TOPIC" && len(frame) == len(r.frame) {
					continue // another name, perhaps
				}
				binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
				binary.BigEndian.PutUint64(frame[6:], uint64(at*100+i)+1000)
				if _, err := c.Write(frame); err != nil {
					c.Close()
					c = b.dial(t)
				}
			}
			// A HELLO that makes no sense ends the connection; so may too many requests without an answer.
			if err := ping(c); err != nil {
				if r.name != "HELLO" {
					t.Fatalf("%s with counts of every size at byte %d: the connection ended: %v", r.name, at, err)
				}
				c.Close()
				c = b.dial(t)
			}
		}
		c.Close()
	}
	// The numbers inside a batch.
	one := batch(t, proto.CodecNone, []byte("value"))
	c := b.dial(t)
	end := b.end(t, "scapegoat")
	id := uint64(1000)
	for at := range len(one) {
		for _, v := range [][]byte{{0xff}, {0x80}, {0x7f}, {0xff, 0xff, 0xff, 0xff}, {0x80, 0, 0, 0}, {0x7f, 0xff, 0xff, 0xff}} {
			hurt := slices.Clone(one)
			if copy(hurt[at:], v); slices.Equal(hurt, one) {
				continue
			}
			if at >= 21 && at+len(v) > 21 { // behind the checksum, which is made good
				binary.BigEndian.PutUint32(hurt[17:], proto.CRC(hurt[21:]))
			}
			id++
			write(t, c, produce(b.topic, id, hurt))
			answerTo(t, c, id)
		}
	}
	if err := ping(c); err != nil {
		t.Error(err)
	}
	if got := b.end(t, "scapegoat"); got < end || got > end+int64(id) {
		t.Errorf("the log's end moved from %d to %d", end, got)
	}
}

// dripTime is how long a frame is dripped.
func dripTime() time.Duration { return time.Duration(pick(2, 20)) * time.Second }

// drip sends large requests a byte at a time, over as many connections as would use up all memory for requests, and
// HELLOs a byte at a time: those are closed when the time for a handshake is over, however often a byte comes.
func (b *broker) drip(t *testing.T) {
	frame := produce(b.topic, 50, batch(t, proto.CodecNone, make([]byte, 900_000)))
	var large, small []net.Conn
	for range pick(64, 500) {
		c := b.dial(t)
		write(t, c, frame[:300])
		large = append(large, c)
	}
	for range pick(64, 500) {
		small = append(small, b.raw(t))
	}
	began := time.Now()
	for at := 0; time.Since(began) < dripTime(); at++ {
		for _, c := range large {
			_, _ = c.Write(frame[300+at : 300+at+1])
		}
		for _, c := range small {
			_, _ = c.Write(helloFrame[at%len(helloFrame) : at%len(helloFrame)+1][:min(1, max(0, len(helloFrame)-1-at))])
		}
		time.Sleep(150 * time.Millisecond)
	}
	for i, c := range small {
		last, err := closed(c, handshakeTimeout+slack)
		if err != nil || last == nil || last.Code != proto.CodeHandshakeRequired {
			t.Errorf("HELLO %d came byte by byte: %v, %v", i, last, err)
			break
		}
		c.Close()
	}
	for _, c := range large {
		reset(c)
	}
}
