package conn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// readBufferBytes is what one read takes at most; payloads that fit are handed over where they lie.
const readBufferBytes = 64 << 10

// read reads frames until the connection ends, and says why it did.
func (c *Conn) read() error {
	in := bufio.NewReaderSize(c.net, readBufferBytes)
	lengthMax := max(c.Hello.Limits.FrameBytesMax, frameBytesMin)
	for {
		head, err := in.Peek(proto.FrameHeaderBytes)
		if err != nil {
			return c.disconnected(err)
		}
		c.lastRead.Store(time.Now().UnixNano())
		h, _, err := proto.DecodeFrameHeader(head, lengthMax)
		if err != nil {
			return c.disconnected(err)
		}
		in.Discard(proto.FrameHeaderBytes)
		if err := c.readFrame(in, h); err != nil {
			return err
		}
	}
}

// readFrame takes one payload to whoever it is for.
func (c *Conn) readFrame(in *bufio.Reader, h proto.FrameHeader) error {
	n := h.PayloadBytes()
	push := h.Answer && (h.Command == proto.CommandDeliver || h.Command == proto.CommandLeased)
	var request *Request
	if h.Answer && !push && h.RequestID != 0 {
		c.mu.Lock()
		request = c.pending[h.RequestID]
		c.mu.Unlock()
	}
	var payload []byte
	lent := n <= readBufferBytes && !push && (request == nil || !request.Keep)
	var err error
	if lent {
		payload, err = in.Peek(n)
	} else {
		if request != nil && request.Buffer != nil {
			payload = request.Buffer(n)
		} else {
			payload = make([]byte, n)
		}
		err = readFull(c, in, payload)
	}
	if err != nil {
		return c.disconnected(err)
	}
	switch {
	case push:
		c.mu.Lock()
		receive := c.pushes[h.RequestID]
		c.mu.Unlock()
		if receive != nil {
			receive(payload)
		}
	case h.Answer:
		err = c.answered(h, request, payload)
	default:
		err = c.asked(h, payload)
	}
	if lent {
		in.Discard(n)
	}
	return err
}

// readFull reads a large payload, noting life after each piece: a slow link is not a dead one.
func readFull(c *Conn, in *bufio.Reader, payload []byte) error {
	for len(payload) > 0 {
		n, err := in.Read(payload)
		payload = payload[n:]
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		c.lastRead.Store(time.Now().UnixNano())
	}
	return nil
}

// answered hands an answer to its request.
func (c *Conn) answered(h proto.FrameHeader, r *Request, payload []byte) error {
	var refusal error
	if h.Command == proto.CommandError {
		e := new(proto.Error)
		if err := e.Decode(payload); err != nil {
			return c.disconnected(err)
		}
		refusal = e
		if h.RequestID == 0 {
			return c.dismissed(e)
		}
	}
	if r == nil {
		if h.Command == proto.CommandPing {
			c.mu.Lock()
			c.pinged = false
			c.mu.Unlock()
			return nil
		}
		if refusal != nil {
			// A refused CREDIT, which nobody waits for. That its subscription has ended meanwhile is no news; any other
			// refusal has lost credit, and the subscription would wait for ever: a new connection begins anew.
			if !errors.Is(refusal, proto.CodeUnknownSubscription) {
				return c.disconnected(refusal)
			}
			return nil
		}
		return c.disconnected(fmt.Errorf("an answer to %v with id %d that nobody asked for", h.Command, h.RequestID))
	}
	command := r.Message.Command()
	if refusal == nil && (h.Command != command || h.Version != command.Version()) {
		return c.disconnected(fmt.Errorf("request %d was %v version %d, its answer is %v version %d",
			h.RequestID, command, command.Version(), h.Command, h.Version))
	}
	more := r.Done(payload, refusal) && refusal == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if more {
		r.deadline = time.Now().Add(c.options.RequestTimeout)
		return nil
	}
	delete(c.pending, h.RequestID)
	if refusal != nil {
		delete(c.pushes, h.RequestID)
	}
	c.window.release(r.payloadBytes)
	if len(c.waiting) > 0 {
		c.wakeWriter()
	}
	return nil
}

// asked serves what the broker starts: PING and CREDIT. Anything else is of a later protocol and is left alone.
func (c *Conn) asked(h proto.FrameHeader, payload []byte) error {
	switch h.Command {
	case proto.CommandPing:
		var ping proto.PingRequest
		if err := ping.Decode(payload); err != nil {
			return c.disconnected(err)
		}
		c.mu.Lock()
		// A broker that asks and does not read the answers must not fill our memory.
		if len(c.control) < readBufferBytes {
			c.control = proto.AppendFrame(c.control, h.RequestID, &proto.PingResponse{Opaque: ping.Opaque})
		}
		c.wakeWriter()
		c.mu.Unlock()
	case proto.CommandCredit:
		var credit proto.CreditPush
		if err := credit.Decode(payload); err != nil {
			return c.disconnected(err)
		}
		c.mu.Lock()
		c.window.bytesMax, c.window.requestsMax = credit.WindowBytes, credit.WindowRequests
		c.wakeWriter()
		c.mu.Unlock()
	}
	return nil
}
