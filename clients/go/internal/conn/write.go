package conn

import (
	"net"
	"time"
)

const (
	// writeBytesMax is about how much goes into one system call.
	writeBytesMax = 4 << 20

	// writeBuffersMax keeps one write within what the kernel takes as one vector.
	writeBuffersMax = 512
)

// piece is a part of a write: heads up to end, then bulk.
type piece struct {
	end  int
	bulk []byte
}

// write admits and writes requests until the connection ends.
func (c *Conn) write() {
	var heads []byte
	var pieces []piece
	var buffers net.Buffers
	for {
		heads, pieces = c.gather(heads[:0], pieces[:0])
		if len(heads) == 0 {
			select {
			case <-c.wake:
				continue
			case <-c.closed:
				return
			}
		}
		// Slices of heads are taken only now: it may have moved while it grew.
		buffers = buffers[:0]
		from := 0
		for _, p := range pieces {
			buffers = append(buffers, heads[from:p.end], p.bulk)
			from = p.end
		}
		if from < len(heads) {
			buffers = append(buffers, heads[from:])
		}
		// A broker that reads nothing for as long as three keepalives is as dead as one that says nothing.
		c.net.SetWriteDeadline(time.Now().Add(3 * c.options.Keepalive))
		out := buffers
		if _, err := out.WriteTo(c.net); err != nil {
			c.fail(c.disconnected(err))
			return
		}
		clear(buffers)
		clear(pieces)
	}
}

// gather encodes control frames and as many waiting requests as the window and one write hold.
func (c *Conn) gather(heads []byte, pieces []piece) ([]byte, []piece) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return heads, pieces
	}
	heads = append(heads, c.control...)
	c.control = c.control[:0]
	bytes, taken := len(heads), 0
	for _, r := range c.waiting {
		if bytes > writeBytesMax || len(pieces)*2 >= writeBuffersMax || !c.window.admit(r.payloadBytes) {
			break
		}
		taken++
		r.id = c.nextID
		c.nextID++
		r.deadline = time.Now().Add(c.options.RequestTimeout + r.Wait)
		c.pending[r.id] = r
		if r.Push != nil {
			c.pushes[r.id] = r.Push
		}
		var bulk []byte
		heads, bulk = r.appendHead(heads)
		if bulk != nil {
			pieces = append(pieces, piece{end: len(heads), bulk: bulk})
		}
		bytes += r.payloadBytes
	}
	n := copy(c.waiting, c.waiting[taken:])
	clear(c.waiting[n:])
	c.waiting = c.waiting[:n]
	return heads, pieces
}
