package netio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// readBufferBytes is what one read of a socket takes at most.
	readBufferBytes = 128 << 10

	// directBytesPerEvent bounds what is read straight into slabs for one connection
	// before the others have their turn.
	directBytesPerEvent = 1 << 20
)

// loop drives one Reactor from one gnet event loop.
type loop struct {
	reactor *Reactor
	server  *Server
	wake    *wake
	events  gnet.EventLoop
	timer   *time.Timer // kicks when the reactor wants a turn later
	cpu     int         // to run on, -1 for any

	connections               atomic.Int64 // for the choice of the loop of a new connection
	tickDue                   atomic.Int64 // nanoseconds since the tick before, 0: none is due
	drainDue                  atomic.Bool
	drainSeen                 atomic.Bool // new requests are refused
	drained                   atomic.Bool
	farewellDue, farewellSaid atomic.Bool
	turned                    atomic.Int64 // when, in Unix nanoseconds
	ticked                    int64        // monotonic, the last tick
}

// turn is what a wake-up is for.
func (l *loop) turn() {
	l.wake.taken()
	l.turned.Store(time.Now().UnixNano())
	if l.drainDue.Load() {
		l.reactor.Drain()
		l.drainSeen.Store(true)
		l.drained.Store(l.reactor.Drained())
	}
	if l.farewellDue.Load() {
		l.reactor.Farewell()
		l.farewellSaid.Store(true)
	}
	if since := l.tickDue.Swap(0); since > 0 {
		l.tick(since)
		return
	}
	l.later(l.reactor.Turn())
}

// pauseMin is how late a tick has to be for the process, or the machine, to have
// stood still rather than have been busy.
const pauseMin = int64(time.Second)

// tick looks after deadlines, of which a pause of the whole process is no part. It was due
// some nanoseconds after the one before.
func (l *loop) tick(since int64) {
	now := l.reactor.clock.Monotonic()
	if late := now - l.ticked - since; l.ticked != 0 && late >= pauseMin {
		l.reactor.Paused(late)
	}
	l.ticked = now
	l.later(l.reactor.Tick())
}

// later has the reactor take a turn after some nanoseconds, if it wants one.
func (l *loop) later(wait int64) {
	if wait > 0 {
		l.timer.Reset(time.Duration(wait))
	}
}

// events is what gnet calls. Every call about a connection comes from its loop's thread.
type events struct {
	gnet.BuiltinEventEngine
	server *Server
}

// OnOpen takes the wake-up of a loop, or a connection.
func (e *events) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	switch at := c.Context().(type) {
	case *loop:
		at.events = c.EventLoop()
		if at.cpu >= 0 {
			if err := pinThread(at.cpu); err != nil {
				e.server.log.Warn("a reactor stays unpinned", "reactor", at.reactor.index, "cpu", at.cpu, "error", err)
			}
		}
	case *gnetConn:
		at.conn = c
		at.session = at.loop.reactor.Open(at, at.listener)
	}
	return nil, gnet.None
}

// OnTraffic takes what has arrived.
func (e *events) OnTraffic(c gnet.Conn) gnet.Action {
	switch at := c.Context().(type) {
	case *loop:
		_, _ = c.Discard(-1)
		at.turn()
	case *gnetConn:
		b, _ := c.Next(-1) // without an error: all that there is
		at.session.Receive(b)
		at.readDirect()
		at.loop.later(at.loop.reactor.Flush())
		if at.closed {
			return gnet.Close
		}
	}
	return gnet.None
}

// OnClose takes the end of a connection, whoever ended it.
func (e *events) OnClose(c gnet.Conn, err error) gnet.Action {
	if at, ok := c.Context().(*gnetConn); ok && !at.closed {
		at.closed = true
		at.session.Lost()
		at.loop.later(at.loop.reactor.Flush())
		at.loop.connections.Add(-1)
		at.loop.server.limits.leave(at.address)
	}
	return gnet.None
}

// gnetConn is a client's connection as the session sees it.
type gnetConn struct {
	loop     *loop
	listener *Listener
	conn     gnet.Conn
	session  *Session
	remote   string
	address  limitKey
	closed   bool
}

var (
	_ core.Conn  = (*gnetConn)(nil)
	_ halfCloser = (*gnetConn)(nil)
)

// readDirect reads the rest of a large batch from the socket into its slab.
func (c *gnetConn) readDirect() {
	for total := 0; total < directBytesPerEvent && !c.closed; {
		room := c.session.Room()
		if len(room) == 0 {
			return
		}
		n, err := unix.Read(c.conn.Fd(), room)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return // nothing there now; the end and failures are found by gnet's next read
		}
		c.session.Filled(n)
		if total += n; n < len(room) {
			return
		}
	}
}

// Write queues p.
func (c *gnetConn) Write(p []byte) error {
	if c.closed {
		return net.ErrClosed
	}
	_, err := c.conn.Write(p)
	return err
}

// Writev queues the slices as one write.
func (c *gnetConn) Writev(ps [][]byte) error {
	if c.closed {
		return net.ErrClosed
	}
	if len(ps) == 1 {
		_, err := c.conn.Write(ps[0])
		return err
	}
	_, err := c.conn.Writev(ps)
	return err
}

// Buffered is what the socket has not taken.
func (c *gnetConn) Buffered() int {
	if c.closed {
		return 0
	}
	return c.conn.OutboundBuffered()
}

// Remote is the client's address.
func (c *gnetConn) Remote() string { return c.remote }

// Close ends the connection now. It must not be called during the connection's own event.
func (c *gnetConn) Close() {
	if !c.closed {
		_ = c.loop.events.Close(c.conn)
	}
}

// CloseWrite tells the client that no more bytes come.
func (c *gnetConn) CloseWrite() {
	if !c.closed {
		_ = unix.Shutdown(c.conn.Fd(), unix.SHUT_WR)
	}
}

// startLoops starts the gnet loops and binds each to its reactor: the wake-ups
// are the first connections, and gnet gives each loop one.
func (s *Server) startLoops() error {
	client, err := gnet.NewClient(&events{server: s},
		gnet.WithNumEventLoop(len(s.loops)),
		gnet.WithLockOSThread(s.pin),
		gnet.WithReadBufferCap(readBufferBytes),
		gnet.WithLogger(gnetLog{s.log}),
	)
	if err != nil {
		return fmt.Errorf("prepare the reactors: %w", err)
	}
	if err := client.Start(); err != nil {
		return fmt.Errorf("start the reactors: %w", err)
	}
	s.client = client
	taken := make(map[gnet.EventLoop]bool)
	for _, l := range s.loops {
		if _, err := client.EnrollContext(l.wake.peer, l); err != nil {
			return fmt.Errorf("start reactor %d: %w", l.reactor.index, err)
		}
		l.wake.peer = nil
		core.Assert(!taken[l.events], "each reactor has a loop of its own")
		taken[l.events] = true
	}
	return nil
}

// enroll gives an accepted connection to a loop.
func (s *Server) enroll(conn *net.TCPConn, c *gnetConn) error {
	// gnet puts the zone of an address into a pool of byte slices when it closes a
	// connection, as if it had allocated it; these strings are not its to reuse.
	conn.LocalAddr().(*net.TCPAddr).Zone = ""
	conn.RemoteAddr().(*net.TCPAddr).Zone = ""
	done, err := c.loop.events.Enroll(gnet.NewContext(context.Background(), c), conn)
	if err != nil {
		return err
	}
	if result := <-done; result.Err != nil {
		return result.Err
	}
	if c.conn == nil { // the loop could not watch it, which gnet does not report
		return errors.New("the reactor could not take it")
	}
	return nil
}

// gnetLog passes gnet's messages on. Its warnings are about events of connections
// that were closed a moment before, thousands of them when many clients leave at
// once, and say nothing to an operator. Its texts hold numbers and addresses, so
// they are a field: the message of a line is constant and can be searched for.
type gnetLog struct{ log *slog.Logger }

func (g gnetLog) say(level slog.Level, format string, args []any) {
	if g.log.Enabled(context.Background(), level) {
		g.log.Log(context.Background(), level, "the network library says", "text", fmt.Sprintf(format, args...))
	}
}

func (g gnetLog) Debugf(format string, args ...any) { g.say(slog.LevelDebug, format, args) }
func (g gnetLog) Infof(format string, args ...any)  { g.say(slog.LevelDebug, format, args) }
func (g gnetLog) Warnf(format string, args ...any)  { g.say(slog.LevelDebug, format, args) }
func (g gnetLog) Errorf(format string, args ...any) { g.say(slog.LevelError, format, args) }
func (g gnetLog) Fatalf(format string, args ...any) {
	g.say(slog.LevelError, format, args)
	panic("the network library gave up")
}
