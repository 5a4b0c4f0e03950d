package fakebroker

import (
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	Delay      time.Duration // before anything else
	DropBefore bool          // end the connection, carry nothing out
	DropAfter  bool          // carry it out, end the connection without an answer
	CutAnswer  int           // carry it out, send so many bytes of the answer, end the connection; 0 is off
	Silent     bool          // carry it out, never answer
	Refuse     *proto.Error  // carry nothing out, answer with this
	Disown     *proto.Error  // carry it out, answer with this
	CorruptCRC bool          // FETCH and DELIVER: flip a bit in the records
}

// SetFault decides about each request from now on, on every node; nil is no fault. HELLO is not asked about. It is
// called from many goroutines.
func (c *Cluster) SetFault(f func(request proto.Message) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

func (c *Cluster) faultFor(request proto.Message) Fault {
	c.mu.Lock()
	f := c.fault
	c.mu.Unlock()
	if f == nil {
		return Fault{}
	}
	return f(request)
}
