package conn

import (
	"context"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// message is a response type's pointer.
type message[R any] interface {
	*R
	proto.Message
}

// Call sends a request and waits for its answer, or for the end of ctx: the request may be carried out all the same.
func Call[R any, P message[R]](ctx context.Context, c *Conn, request proto.Message) (*R, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type answer struct {
		response *R
		err      error
	}
	answers := make(chan answer, 1)
	r := &Request{Message: request, Keep: true}
	if deadline, ok := ctx.Deadline(); ok {
		// The caller may wait longer than the connection's own patience.
		r.Wait = max(time.Until(deadline)-c.options.RequestTimeout, 0)
	}
	r.Done = func(payload []byte, err error) bool {
		response := new(R)
		if err == nil {
			err = P(response).Decode(payload)
		}
		answers <- answer{response, err}
		return false
	}
	if err := c.Start(r); err != nil {
		return nil, err
	}
	select {
	case a := <-answers:
		return a.response, a.err
	case <-ctx.Done():
		if c.Abandon(r) {
			return nil, fmt.Errorf("pulsemq: %v was not sent to %s: %w", request.Command(), c.Address, ctx.Err())
		}
		return nil, fmt.Errorf("pulsemq: %s has not answered %v, and may carry it out: %w", c.Address, request.Command(), ctx.Err())
	}
}
