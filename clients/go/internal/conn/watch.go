package conn

import (
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// watchFraction is how often the watch looks, as a part of the shorter of keepalive and request timeout: the deadlines
// it holds are late by at most that.
const watchFraction = 8

// watch ends the connection when the broker is silent for three keepalives or late with an answer.
func (c *Conn) watch() {
	keepalive := c.options.Keepalive
	// The broker wants to hear from us within its own keepalive; asking before it has to saves it the trouble.
	if theirs := time.Duration(c.Hello.KeepaliveMs) * time.Millisecond; theirs > 0 {
		keepalive = min(keepalive, theirs)
	}
	every := max(min(keepalive, c.options.RequestTimeout)/watchFraction, time.Millisecond)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.closed:
			return
		case now := <-ticker.C:
			silent := now.Sub(time.Unix(0, c.lastRead.Load()))
			if silent > 3*c.options.Keepalive {
				c.fail(c.disconnected(fmt.Errorf("nothing was heard for %v", silent.Round(time.Millisecond))))
				return
			}
			if r, late := c.late(now); late > 0 {
				c.fail(fmt.Errorf("%w: %s: %v after %v", ErrRequestTimeout, c.Address, r, late.Round(time.Millisecond)))
				return
			}
			if silent > keepalive {
				c.ping(now)
			}
		}
	}
}

// late finds a request whose answer is overdue, and how long it has taken.
func (c *Conn) late(now time.Time) (command proto.Command, taken time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pending {
		if now.After(r.deadline) {
			return r.Message.Command(), now.Sub(r.deadline) + c.options.RequestTimeout + r.Wait
		}
	}
	return 0, 0
}

// ping asks for a sign of life, once per silence.
func (c *Conn) ping(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pinged || c.err != nil {
		return
	}
	c.pinged = true
	c.control = proto.AppendFrame(c.control, c.nextID, &proto.PingRequest{Opaque: uint64(now.UnixNano())})
	c.nextID++
	c.wakeWriter()
}
