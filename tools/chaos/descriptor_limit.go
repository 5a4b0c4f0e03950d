package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

var descriptorLimit = scenario{
	name: "descriptors", what: "few file descriptors, many partitions and connections: refusals that say so, no crash, and an end to it",
	lack: lackLauncher, play: playDescriptorLimit,
}

const (
	// descriptorsMax is what the broker may have: enough for itself and little more.
	descriptorsMax = 80
	// connectionsMax is network.max-connections where that is what is reached first.
	connectionsMax = 12
	// fewerLine is what the log says when there are not descriptors enough for the connections that are allowed.
	fewerLine = "fewer connections are served than network.max-connections allows: file descriptors are limited"
)

func playDescriptorLimit(ctx context.Context, s *stage) error {
	for _, driver := range pick(s, []string{"auto"}, []string{"auto", "posix"}) {
		if err := descriptorsOnce(ctx, s, driver); err != nil {
			return fmt.Errorf("storage.disk=%s: %w", driver, err)
		}
	}
	return connectionsOnce(ctx, s)
}

// wideRoles have many more segments than there are descriptors.
func wideRoles(partitions uint32) []role {
	return []role{
		{name: "wide", partitions: partitions, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB"}, sizes: []int{100, 100, 100_000}, windows: 2},
		{name: "kept", partitions: 2, config: map[string]string{"segment.bytes": "1MiB", "max.message.bytes": "512KiB", "retention.bytes": "2MiB"}, sizes: []int{50_000}, windows: 4},
	}
}

func descriptorsOnce(ctx context.Context, s *stage, driver string) error {
	b := newBroker(s, "storage.disk="+driver, "storage.journal-size=32MiB")
	b.data, b.log = b.data+"-"+driver, b.log+"-"+driver
	b.limits = []string{fmt.Sprintf("descriptors=%d", descriptorsMax)}
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.end() }()
	c, err := newCast(ctx, b.Address, wideRoles(pick[uint32](s, 60, 150)))
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	calm, err := b.descriptors()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	play, stop := context.WithCancel(ctx)
	defer stop()
	random := rand.New(rand.NewPCG(s.random.Uint64(), 1))
	all.Go(func() { c.play(play, random) })
	time.Sleep(pick(s, 300*time.Millisecond, 5*time.Second))

	if n, err := b.logged(fewerLine); err != nil || n == 0 {
		return fmt.Errorf("the log does not say that descriptors are limited (%v)", err)
	}
	// Connections take all that they are allowed, again and again; the rest is told so.
	idle, err := dialMany(b.Address, 2*descriptorsMax)
	if err != nil {
		return err
	}
	defer hangUp(idle)
	if err := eventually(ctx, 15*time.Second, func() error {
		refused, err := b.metric("pulsemq_connections_refused_total")
		if err == nil && refused == 0 {
			err = errors.New("no connection was refused")
		}
		return errors.Join(err, b.Alive())
	}); err != nil {
		return err
	}
	_, before := c.counts()
	if err := eventually(ctx, 30*time.Second, func() error { // those who were there are served
		if _, now := c.counts(); now <= before {
			return errors.New("nothing is acknowledged while there are no descriptors")
		}
		return b.Alive()
	}); err != nil {
		return err
	}
	hangUp(idle)
	if err := eventually(ctx, 30*time.Second, func() error {
		l, err := dialLine(b.Address)
		if err != nil {
			return err
		}
		return l.close()
	}); err != nil {
		return fmt.Errorf("after the connections were closed, a new one is not served: %w", err)
	}
	refused, err := b.metric("pulsemq_connections_refused_total")
	if err != nil {
		return err
	}
	stop()
	all.Wait()
	if len(c.refused) > 0 {
		return fmt.Errorf("messages were refused for good: %v", c.refused)
	}
	records, err := c.verify(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(b.sound(), b.Kill(), b.restart()); err != nil { // it starts within the limit, too
		return err
	}
	if _, err := c.verify(ctx); err != nil {
		return err
	}
	s.say("%s: %d descriptors at rest of %d; %v connections refused, %d records read back", driver, calm, descriptorsMax, refused, records)
	return errors.Join(b.sound(), b.Terminate())
}

// connectionsOnce reaches network.max-connections: who comes later is told so.
func connectionsOnce(ctx context.Context, s *stage) error {
	b := newBroker(s, fmt.Sprintf("network.max-connections=%d", connectionsMax))
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.end() }()
	var lines []*line
	defer func() {
		for _, l := range lines {
			l.close()
		}
	}()
	for range connectionsMax {
		l, err := dialLine(b.Address)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", len(lines)+1, connectionsMax, err)
		}
		lines = append(lines, l)
	}
	for range 50 {
		l, err := dialLine(b.Address)
		if err == nil {
			l.close()
			return errors.New("a connection above network.max-connections is served")
		}
		// What the client sent may be answered with a reset before it has read why, but only then.
		if !errors.Is(err, proto.ErrTooManyConnections) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return fmt.Errorf("a connection above network.max-connections: %w", err)
		}
	}
	if refused, err := b.metric("pulsemq_connections_refused_total"); err != nil || refused < 50 {
		return fmt.Errorf("pulsemq_connections_refused_total is %v (%v)", refused, err)
	}
	lines[0].close()
	if err := eventually(ctx, 10*time.Second, func() error {
		l, err := dialLine(b.Address)
		if err == nil {
			lines[0] = l
		}
		return err
	}); err != nil {
		return fmt.Errorf("after one connection was closed: %w", err)
	}
	return b.sound()
}

// dialMany opens connections that say nothing.
func dialMany(address string, count int) (all []net.Conn, err error) {
	for range count {
		conn, err := net.DialTimeout("tcp", address, 10*time.Second)
		if err != nil {
			hangUp(all)
			return nil, err
		}
		all = append(all, conn)
	}
	return all, nil
}

func hangUp(all []net.Conn) {
	for _, conn := range all {
		conn.Close()
	}
}
