package main

import (
	"net"

	"github.com/pulsemq/pulsemq/netio"
	"github.com/pulsemq/pulsemq/proto"
)

// habit is how a connection's path treats bytes. Paths differ, so that connections overtake each other.
type habit struct {
	delayMin, delayMax int64
	piecesMax          int // bytes that arrive together, at most
	socketBytes        int // what the sender's socket takes before it says that it is full
}

// wire is one connection between a client and a node. Each way is a queue of bytes that arrive in pieces, late, in
// order. The client's end is an end; the broker's is a core.Conn.
type wire struct {
	world  *world
	node   *node
	life   int // of the node when it was opened
	number int64
	habit  habit
	end    end // the client's side; nil once it has heard of the end
	owner  end // who opened it

	session *netio.Session
	reactor int

	up, down     []byte // to the node, to the client
	upMoving     bool
	downMoving   bool
	stalled      bool // the client does not read
	incident     int  // of the ledger, when the node closed it
	upEnded      bool // the client sends no more
	downEnded    bool // the node sends no more
	closed       bool // for the node
	resetUpAfter int  // the wire is cut after so many more bytes up; negative never
}

// end is a client's side of a wire.
type end interface {
	connected()
	received(b []byte)
	lost()
}

// dial opens a wire to a node. It connects later, or is refused.
func (w *world) dial(n *node, e end) *wire {
	w.wires++
	c := &wire{world: w, node: n, life: n.life, number: w.wires, end: e, owner: e, habit: w.habit(), resetUpAfter: -1}
	w.after(w.between(20e3, 2e6), func() {
		if n.state != nodeUp || n.life != c.life {
			c.tellLost()
			return
		}
		c.reactor = n.leastConnected()
		n.wires = append(n.wires, c)
		w.note("open", c.number, int64(c.reactor))
		c.session = n.reactors[c.reactor].Open(c, &n.listener)
		if c.end != nil {
			c.end.connected()
		}
		c.moveUp() // the client may have closed already
	})
	return c
}

func (w *world) habit() habit {
	h := habit{delayMin: 10e3, delayMax: 300e3, piecesMax: 64 << 10, socketBytes: 64 << 10}
	if w.healed {
		return h
	}
	switch w.random.IntN(6) {
	case 0: // small pieces
		h.piecesMax = 1 + w.random.IntN(200)
		h.delayMax = 50e3
	case 1: // a long way
		h.delayMin, h.delayMax = 2e6, 20e6
	case 2: // a small socket
		h.socketBytes = 4 << 10
		h.piecesMax = 4 << 10
	}
	return h
}

// send is the client's write.
func (c *wire) send(b []byte) {
	if c.closed || c.upEnded || c.end == nil {
		return
	}
	c.up = append(c.up, b...)
	c.moveUp()
}

func (c *wire) moveUp() {
	if c.upMoving || c.closed || c.session == nil || len(c.up) == 0 && !c.upEnded {
		return
	}
	c.upMoving = true
	c.world.after(c.world.between(c.habit.delayMin, c.habit.delayMax), c.arriveUp)
}

// arriveUp hands a piece to the session, as the broker's event loop does.
func (c *wire) arriveUp() {
	c.upMoving = false
	if c.closed {
		return
	}
	w, n := c.world, c.node
	size := min(len(c.up), 1+w.random.IntN(c.habit.piecesMax))
	if size == 0 { // the client has closed
		w.note("closed by client", c.number)
		c.drop()
		return
	}
	if c.resetUpAfter >= 0 && c.resetUpAfter <= size {
		size = c.resetUpAfter
	}
	piece := c.up[:size:size]
	c.up = c.up[size:]
	w.note("up", c.number, int64(size), int64(proto.CRC(piece)))
	// Part of a large batch is read straight into its slab, as from a socket.
	for w.random.IntN(2) == 0 && len(piece) > 0 {
		room := c.session.Room()
		k := copy(room, piece)
		if k == 0 {
			break
		}
		c.session.Filled(k)
		piece = piece[k:]
	}
	if len(piece) > 0 && !c.closed {
		c.session.Receive(piece)
	}
	n.later(c.reactor, n.reactors[c.reactor].Flush())
	if c.resetUpAfter >= 0 {
		if c.resetUpAfter -= size; c.resetUpAfter <= 0 {
			c.reset()
			return
		}
	}
	c.moveUp()
}

// reset cuts the wire: both sides hear of it, and what was under way is gone.
func (c *wire) reset() {
	if !c.closed {
		c.world.note("reset", c.number)
		c.drop()
	}
	c.tellLost()
}

// hangUp is the client's close. With half it goes on reading what is there.
func (c *wire) hangUp(half bool) {
	c.upEnded = true
	if !half {
		c.end = nil
	}
	c.moveUp()
}

// drop is the end for the node: a closed or reset connection.
func (c *wire) drop() {
	if c.closed {
		return
	}
	c.closed = true
	c.downEnded = true
	c.incident = c.world.ledger.incident
	c.node.forget(c)
	c.session.Lost()
	c.node.later(c.reactor, c.node.reactors[c.reactor].Flush())
	c.moveDown()
}

// cut is the end of the node's process: nothing of it goes on.
func (c *wire) cut() {
	c.closed = true
	c.down = nil
	c.world.after(c.world.between(10e3, 5e6), c.tellLost)
}

func (c *wire) tellLost() {
	if e := c.end; e != nil {
		c.end = nil
		e.lost()
	}
}

// Write queues p.
func (c *wire) Write(p []byte) error {
	if c.closed {
		return net.ErrClosed
	}
	c.down = append(c.down, p...)
	c.moveDown()
	return nil
}

// Writev queues the slices.
func (c *wire) Writev(ps [][]byte) error {
	for _, p := range ps {
		if err := c.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// Buffered is what the socket has not taken.
func (c *wire) Buffered() int { return max(0, len(c.down)-c.habit.socketBytes) }

// Remote is the client's address.
func (c *wire) Remote() string { return "client" }

// Close is the broker's close.
func (c *wire) Close() {
	if !c.closed {
		c.world.note("closed by node", c.number)
		c.drop()
	}
}

// CloseWrite says that no more bytes come.
func (c *wire) CloseWrite() {
	c.downEnded = true
	c.moveDown()
}

func (c *wire) moveDown() {
	if c.downMoving || c.stalled || c.end == nil || len(c.down) == 0 && !c.downEnded {
		return
	}
	c.downMoving = true
	c.world.after(c.world.between(c.habit.delayMin, c.habit.delayMax), c.arriveDown)
}

func (c *wire) arriveDown() {
	c.downMoving = false
	if c.end == nil || c.stalled {
		return
	}
	if c.downEnded && c.closed && c.incident != c.world.ledger.incident {
		c.down = nil // words of before, which the ledger would take for today's
	}
	size := min(len(c.down), 1+c.world.random.IntN(c.habit.piecesMax))
	if size == 0 {
		if c.downEnded {
			c.tellLost()
			if !c.closed { // the client closes in turn
				c.upEnded = true
				c.moveUp()
			}
		}
		return
	}
	piece := c.down[:size:size]
	c.down = c.down[size:]
	c.world.note("down", c.number, int64(size), int64(proto.CRC(piece)))
	c.end.received(piece)
	c.moveDown()
}

// stall and resume are a client that stops reading for a while.
func (c *wire) stall() { c.stalled = true }
func (c *wire) resume() {
	c.stalled = false
	c.moveDown()
}
