package conn

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// frameBytesMin is what this client accepts at least in one frame from a broker, whatever the broker's own limit.
const frameBytesMin = 64 << 20

// Conn is a connection that has shaken hands. It is safe for use by many goroutines.
type Conn struct {
	// Hello is what the broker said about itself. The window in it is the first one.
	Hello   *proto.HelloResponse
	Address string

	net      net.Conn
	options  *Options
	versions versions

	lastRead atomic.Int64 // Unix nanoseconds

	mu      sync.Mutex
	waiting []*Request          // in order, not yet in the window
	pending map[uint64]*Request // written or being written, unanswered
	pushes  map[uint64]func(payload []byte)
	window  window
	control []byte // frames outside the window, which go first
	nextID  uint64
	pinged  bool  // a PING is on its way
	err     error // why the connection ended; nil while it lives

	wake   chan struct{} // to the writer
	closed chan struct{} // when err is set
	done   chan struct{} // when every request has been told
}

func newConn(nc net.Conn, address string, hello *proto.HelloResponse, o *Options) *Conn {
	c := &Conn{
		Hello:    hello,
		Address:  address,
		net:      nc,
		options:  o,
		versions: hello.Commands,
		pending:  map[uint64]*Request{},
		pushes:   map[uint64]func([]byte){},
		window:   window{bytesMax: hello.WindowBytes, requestsMax: hello.WindowRequests},
		nextID:   2, // HELLO had 1
		wake:     make(chan struct{}, 1),
		closed:   make(chan struct{}),
		done:     make(chan struct{}),
	}
	c.lastRead.Store(time.Now().UnixNano())
	go c.run()
	return c
}

// run is the reader, and the one that cleans up after all.
func (c *Conn) run() {
	var others sync.WaitGroup
	others.Go(c.write)
	others.Go(c.watch)
	c.fail(c.read())
	others.Wait()
	c.mu.Lock()
	over := c.waiting
	for _, r := range c.pending {
		over = append(over, r)
	}
	c.waiting, c.pending, c.pushes = nil, nil, nil
	err := c.err
	c.mu.Unlock()
	for _, r := range over {
		if !r.abandoned {
			r.Done(nil, err)
		}
	}
	close(c.done)
}

// Start takes a request; its Done is called once unless Start fails. Requests are written in the order of Start.
func (c *Conn) Start(r *Request) error {
	if err := c.versions.check(r.Message.Command()); err != nil {
		return err
	}
	r.payloadBytes = r.size()
	if most := int(c.Hello.Limits.FrameBytesMax); r.payloadBytes+proto.FrameHeaderBytes-4 > most {
		return &proto.Error{Code: proto.CodeFrameTooLarge, Limit: uint64(most),
			Text: fmt.Sprintf("a %v request of %d bytes: the broker accepts frames of %d bytes", r.Message.Command(), r.payloadBytes, most)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.waiting = append(c.waiting, r)
	c.wakeWriter()
	return nil
}

// Abandon says that nobody waits for a request any more. When it returns true, Done is not called any more and the
// request was never written; else Done is called, now or later, and can be ignored.
func (c *Conn) Abandon(r *Request) (unsent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.waiting {
		if w == r {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			r.abandoned = true
			return true
		}
	}
	return false
}

// Notify sends a message that is never answered and takes no room in the window.
func (c *Conn) Notify(m proto.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.control = proto.AppendFrame(c.control, c.nextID, m)
	c.nextID++
	c.wakeWriter()
	return nil
}

// Unsubscribe forgets the receiver of what is pushed under an id.
func (c *Conn) Unsubscribe(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pushes, id)
}

// Err says why the connection ended; nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Closed is closed when the connection ends.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Close ends the connection and waits until every request has been told. It must not be called from Done or Push.
func (c *Conn) Close() {
	c.fail(ErrClosed)
	<-c.done
}

// fail ends the connection; the first cause stays.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
	}
	c.mu.Unlock()
	if first {
		close(c.closed)
		c.net.Close()
	}
}

// disconnected wraps what ended the connection. A code in it is of what this side made of the bytes that it got: it is told
// and not wrapped, so that nobody takes it for the broker's answer to a request and gives up what wants to be tried again.
func (c *Conn) disconnected(err error) error {
	if _, coded := proto.CodeOf(err); coded {
		return fmt.Errorf("%w: %s: %v", ErrDisconnected, c.Address, err)
	}
	return c.dismissed(err)
}

// dismissed is disconnected with the code that the broker gave as its reason.
func (c *Conn) dismissed(err error) error {
	return fmt.Errorf("%w: %s: %w", ErrDisconnected, c.Address, err)
}

// wakeWriter is called with the lock held.
func (c *Conn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
