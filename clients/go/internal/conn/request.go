package conn

import (
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// bulkCopyMax is the size up to which bulk bytes are copied next to their head: below it a slice of its own in the
// write costs more than the copy.
const bulkCopyMax = 2 << 10

// Request is one request on its way. Its owner sets the exported fields and leaves it alone until Done has been called.
type Request struct {
	// Message is the payload, or with Bulk what comes before it.
	Message proto.Message

	// Bulk ends the payload and is not copied: it must not change before Done has been called.
	Bulk []byte

	// Keep makes the payload that Done gets its owner's; else it is only lent.
	Keep bool

	// Buffer makes room for the payload of a kept answer; nil makes it anew. It runs on the connection's reader.
	Buffer func(bytes int) []byte

	// Wait is what the broker may take on top of the connection's request timeout, as a long poll does.
	Wait time.Duration

	// Push receives what the broker pushes under this request's id from now until the connection ends. The payload is
	// the receiver's to keep.
	Push func(payload []byte)

	// Done receives the answer, or the error that the request ended with. It runs on the connection's reader and must not
	// block. It returns true when another frame of the same answer has to follow; after an error it is not asked.
	Done func(payload []byte, err error) (more bool)

	id           uint64
	payloadBytes int
	deadline     time.Time // set when it is written
	abandoned    bool
}

// ID is the request's id on the wire. It is known when Done or Push is called.
func (r *Request) ID() uint64 { return r.id }

// headAppender is a message that ends with bulk bytes.
type headAppender interface {
	HeadSize() int
	AppendHead(b []byte) []byte
}

func (r *Request) size() int {
	if r.Bulk != nil {
		return r.Message.(headAppender).HeadSize() + len(r.Bulk)
	}
	return r.Message.Size()
}

// appendHead appends the frame but for bulk bytes that are too many to copy; those it returns.
func (r *Request) appendHead(b []byte) (frame, bulk []byte) {
	command := r.Message.Command()
	h := proto.FrameHeader{Version: command.Version(), Command: command, RequestID: r.id}
	b = proto.AppendFrameHeader(b, h, r.payloadBytes)
	if r.Bulk == nil {
		return r.Message.AppendTo(b), nil
	}
	b = r.Message.(headAppender).AppendHead(b)
	if len(r.Bulk) <= bulkCopyMax {
		return append(b, r.Bulk...), nil
	}
	return b, r.Bulk
}
