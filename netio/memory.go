package netio

import (
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/ring/mail"
)

var (
	_ mail.Arena = (*arena.Arena)(nil)
	_ trimmer    = (*arena.Arena)(nil)
)

// trim returns payload memory to the kernel, a bounded piece per tick, once no
// batch has come for a while.
func (r *Reactor) trim() {
	if r.stats.BatchesReceived != r.batchesSeen {
		r.batchesSeen, r.idleSince = r.stats.BatchesReceived, r.now
	}
	if r.now-r.idleSince < trimIdle {
		return
	}
	for _, link := range r.links {
		if t, ok := link.Arena.(trimmer); ok {
			t.Trim(trimBytesPerTick)
		}
	}
}

// trimmer is an arena that can return free memory to the kernel.
type trimmer interface {
	Trim(bytesMax int64) int64
}

const (
	trimIdle         = int64(60e9)
	trimBytesPerTick = 32 << 20
)

// buffer lends an empty buffer.
func (r *Reactor) buffer() []byte {
	if n := len(r.buffers); n > 0 {
		b := r.buffers[n-1]
		r.buffers[n-1] = nil
		r.buffers = r.buffers[:n-1]
		return b[:0]
	}
	return make([]byte, 0, 4<<10)
}

const (
	// buffersSpareMax and bufferSpareBytesMax bound what is kept for the next user.
	buffersSpareMax     = 64
	bufferSpareBytesMax = 256 << 10
)

// recycle takes a buffer back.
func (r *Reactor) recycle(b []byte) {
	if cap(b) > 0 && cap(b) <= bufferSpareBytesMax && len(r.buffers) < buffersSpareMax {
		r.buffers = append(r.buffers, b)
	}
}
