package netio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// tickTime is how often deadlines are looked at.
	tickTime = 100 * time.Millisecond

	// tickIdleTime is how often while there is no connection: a tick costs the Go runtime
	// several wake-ups, and a broker that nobody talks to should cost nothing.
	tickIdleTime = time.Second

	// drainLookTime is how often a shutdown looks whether the last answer has left.
	drainLookTime = 5 * time.Millisecond
)

// Server is the clients' listener and its reactors.
type Server struct {
	log    *slog.Logger
	pin    bool
	loops  []*loop
	limits *connectionLimits
	client *gnet.Client

	views     *mail.Views
	network   core.NetworkConfig
	listeners []*net.TCPListener
	listener  Listener

	acceptFailures atomic.Uint64

	started   atomic.Bool
	stopping  chan struct{} // closed when Shutdown begins
	accepting sync.WaitGroup
	ticking   sync.WaitGroup
}

// ServerOptions makes a Server.
type ServerOptions struct {
	Config *core.Config
	// Links by reactor and shard. NewServer sets Link.Reactor of each.
	Links [][]*mail.Link
	Views *mail.Views
	Clock core.Clock
	Log   *slog.Logger
	// WindowBudgetBytes bounds the windows of all connections together; it is about
	// the memory of the arenas.
	WindowBudgetBytes int64
	// CPUs says on which processor each reactor runs; nil leaves it to the kernel.
	CPUs []int
}

// NewServer prepares the reactors. Nothing is opened to clients before Start.
func NewServer(o ServerOptions) (*Server, error) {
	core.Assert(len(o.Links) > 0 && len(o.Links) <= core.ReactorsMax, "there is at least one reactor")
	s := &Server{
		log:      o.Log,
		pin:      o.Config.Broker.PinThreads,
		limits:   newConnectionLimits(o.Config.Network.MaxConnections, o.Config.Network.MaxConnectionsPerIP),
		views:    o.Views,
		network:  o.Config.Network,
		stopping: make(chan struct{}),
	}
	settings := NewSettings(o.Config, o.WindowBudgetBytes/int64(len(o.Links)))
	for i, links := range o.Links {
		w, err := newWake()
		if err != nil {
			s.closeWakes()
			return nil, err
		}
		for _, link := range links {
			link.Reactor = w
		}
		l := &loop{
			reactor: NewReactor(ReactorOptions{Index: i, Settings: settings, Clock: o.Clock, Views: o.Views, Links: links}),
			server:  s,
			wake:    w,
			cpu:     -1,
		}
		if i < len(o.CPUs) {
			l.cpu = o.CPUs[i]
		}
		l.timer = time.AfterFunc(time.Hour, w.Kick)
		l.timer.Stop()
		s.loops = append(s.loops, l)
	}
	return s, nil
}

// Start opens the listener and serves. When it fails nothing is left open. A View
// must have been published before.
func (s *Server) Start() error {
	core.Assert(s.views.Load() != nil, "clients are served when there is metadata to serve them from")
	if err := s.listen(); err != nil {
		s.closeWakes()
		return err
	}
	if err := s.startLoops(); err != nil {
		for _, l := range s.listeners {
			l.Close()
		}
		if s.client != nil {
			_ = s.client.Stop()
		}
		s.closeWakes()
		return err
	}
	for _, l := range s.loops {
		l.turned.Store(time.Now().UnixNano())
	}
	s.started.Store(true)
	for _, l := range s.listeners {
		s.accepting.Add(1)
		go s.accept(l)
	}
	s.ticking.Add(1)
	go s.tick()
	return nil
}

// tick has every reactor look at its deadlines.
func (s *Server) tick() {
	defer s.ticking.Done()
	interval := tickTime
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stopping:
			return
		case <-ticker.C:
			next := tickIdleTime
			for _, l := range s.loops {
				l.tickDue.Store(int64(interval))
				l.wake.Kick()
				if l.connections.Load() > 0 {
					next = tickTime
				}
			}
			if next != interval {
				interval = next
				ticker.Reset(interval)
			}
		}
	}
}

// Shutdown ends the service: no new connections, new requests are refused with
// SHUTTING_DOWN, those under way are answered until the context ends. Then every
// connection is closed. The shards must run until it returns.
func (s *Server) Shutdown(ctx context.Context) error {
	close(s.stopping)
	s.started.Store(false)
	for _, l := range s.listeners {
		l.Close()
	}
	s.accepting.Wait()
	s.ticking.Wait()
	late := s.await(ctx, func(l *loop) { l.drainDue.Store(true) }, func(l *loop) bool { return l.drained.Load() })
	if late != nil {
		late = fmt.Errorf("requests were still under way when the time to shut down was over: %w", late)
	}
	// The reactors are at hand, so this is quick also when the time is over.
	farewell, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	_ = s.await(farewell, func(l *loop) { l.farewellDue.Store(true) }, func(l *loop) bool { return l.farewellSaid.Load() })
	err := s.client.Stop()
	s.closeWakes()
	return errors.Join(late, err)
}

// await asks every loop for something until each has done it or the context ends.
func (s *Server) await(ctx context.Context, ask func(*loop), done func(*loop) bool) error {
	for _, l := range s.loops {
		ask(l)
	}
	ticker := time.NewTicker(drainLookTime)
	defer ticker.Stop()
	for {
		all := true
		for _, l := range s.loops {
			if !done(l) {
				all = false
				l.wake.Kick()
			}
		}
		if all {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (s *Server) closeWakes() {
	for _, l := range s.loops {
		l.timer.Stop()
		l.wake.close()
	}
}

// Addresses are where the server listens.
func (s *Server) Addresses() []net.Addr {
	list := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		list[i] = l.Addr()
	}
	return list
}

// statsWaitMax is how long a reader of counters waits for fresh ones. A reactor
// that takes no turn in that time is shown as it was.
const statsWaitMax = 200 * time.Millisecond

// Stats returns copies of the reactors' counters, fresh ones if every reactor
// takes a turn soon. It must not be called by a reactor or a shard.
func (s *Server) Stats() []*Stats {
	for _, l := range s.loops {
		l.reactor.askStats()
		l.wake.Kick()
	}
	list := make([]*Stats, 0, len(s.loops))
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		fresh := true
		for _, l := range s.loops {
			fresh = fresh && l.reactor.statsFresh()
		}
		if fresh || time.Since(start) > statsWaitMax {
			break
		}
	}
	for _, l := range s.loops {
		if stats := l.reactor.Stats(); stats != nil {
			list = append(list, stats)
		}
	}
	return list
}
