package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
)

// ErrUnreachable says that no connection could be made.
var ErrUnreachable = errors.New("pulsemq: no broker could be reached")

// Role is what a connection is used for.
type Role uint8

const (
	RoleProduce Role = iota // producing, metadata, administration
	RoleConsume
)

// Link is the way to one broker in one role: a connection, or the attempt to make one.
//
// Invariant: at most one attempt runs at a time, and none before the back-off of the last failure is over.
type Link struct {
	cluster *Cluster
	role    Role
	node    uint32 // 0 for a seed
	seed    string // its address, when node is 0

	mu       sync.Mutex
	current  *conn.Conn
	attempt  *attempt // nil when none runs
	failures int
	notUntil time.Time
	lastErr  error
}

// attempt is one try to connect, that any number of callers wait for.
type attempt struct {
	done chan struct{}
	conn *conn.Conn
	err  error
}

// Current is the connection, or nil when there is none now.
func (l *Link) Current() *conn.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.currentLocked()
}

func (l *Link) currentLocked() *conn.Conn {
	if l.current != nil && l.current.Err() != nil {
		l.current = nil
	}
	return l.current
}

// Get is the connection, after at most one attempt to make it. The attempt goes on when ctx ends.
func (l *Link) Get(ctx context.Context) (*conn.Conn, error) {
	l.mu.Lock()
	if c := l.currentLocked(); c != nil {
		l.mu.Unlock()
		return c, nil
	}
	a, err := l.attemptLocked()
	lastErr := l.lastErr
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		if lastErr != nil {
			return nil, fmt.Errorf("%w: %w: %w", ErrUnreachable, ctx.Err(), lastErr)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err())
	}
}

// Want starts an attempt when there is no connection and none runs; notify is called when there is an outcome.
func (l *Link) Want(notify func(error)) {
	l.mu.Lock()
	a, err := l.attemptLocked()
	l.mu.Unlock()
	if err != nil {
		go notify(err)
		return
	}
	go func() {
		<-a.done
		notify(a.err)
	}()
}

// attemptLocked joins the attempt that runs or starts one.
func (l *Link) attemptLocked() (*attempt, error) {
	if l.attempt != nil {
		return l.attempt, nil
	}
	a := &attempt{done: make(chan struct{})}
	if !l.cluster.goroutine(func(ctx context.Context) { l.try(ctx, a) }) {
		return nil, conn.ErrClosed
	}
	l.attempt = a
	return a, nil
}

// try waits for the back-off to end, dials, and tells everyone.
func (l *Link) try(ctx context.Context, a *attempt) {
	l.mu.Lock()
	wait := time.Until(l.notUntil)
	l.mu.Unlock()
	var c *conn.Conn
	err := sleep(ctx, wait)
	if err == nil {
		c, err = l.dial(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = conn.ErrClosed
	}
	l.mu.Lock()
	if err != nil {
		l.failures++
		l.notUntil = time.Now().Add(l.cluster.backoff.After(l.failures))
		a.err = fmt.Errorf("%w: %w", ErrUnreachable, err)
		l.lastErr = err
	} else {
		l.failures, l.lastErr = 0, nil
		// A broker that accepts and hangs up at once is not asked again without a pause either.
		l.notUntil = time.Now().Add(l.cluster.backoff.After(1))
		a.conn, l.current = c, c
	}
	l.attempt = nil
	l.mu.Unlock()
	close(a.done)
}

func (l *Link) dial(ctx context.Context) (*conn.Conn, error) {
	address := l.seed
	if l.node != 0 {
		var err error
		if address, err = l.cluster.address(l.node); err != nil {
			return nil, err
		}
	}
	log := l.cluster.options.Logger
	c, err := conn.Dial(ctx, address, l.cluster.options)
	if err == nil {
		err = l.cluster.connected(l, c)
		if err != nil {
			c.Close()
		}
	}
	if err != nil {
		log.Debug("could not connect", "broker", address, "error", err)
		return nil, err
	}
	log.Debug("connected", "broker", address, "node", c.Hello.NodeID)
	return c, nil
}

// adopt takes a connection that was made to a seed and turned out to be this broker.
func (l *Link) adopt(c *conn.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.currentLocked() == nil {
		l.current, l.failures, l.lastErr = c, 0, nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
