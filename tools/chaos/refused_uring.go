package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

var refusedUring = scenario{
	name: "refused-uring", what: "io_uring refused, as containers and old kernels do: worker threads take over and say so",
	lack: lackLauncher, play: playRefusedUring,
}

// lackLauncher says why a broker cannot be started under limits.
func lackLauncher(*stage) error {
	if runtime.GOOS != "linux" {
		return errors.New("limits are set on Linux only")
	}
	return nil
}

// fallbackLine is what the log says when worker threads take over.
const fallbackLine = "io_uring cannot be used: worker threads do the disk's work, which is slower"

func playRefusedUring(ctx context.Context, s *stage) error {
	for _, refusal := range []struct {
		errno syscall.Errno
		who   string
	}{{syscall.EPERM, "a container's profile"}, {syscall.ENOSYS, "a kernel without it"}} {
		if err := refusedUringOnce(ctx, s, refusal.errno); err != nil {
			return fmt.Errorf("refused as by %s (%v): %w", refusal.who, refusal.errno, err)
		}
	}
	return nil
}

func refusedUringOnce(ctx context.Context, s *stage, errno syscall.Errno) error {
	limit := fmt.Sprintf("refuse-uring=%d", errno)
	b := newBroker(s, "storage.disk=uring")
	b.data += fmt.Sprint("-", int(errno))
	b.log += fmt.Sprint("-", int(errno))
	b.limits = []string{limit}
	// Who insists on io_uring is told why there is none, and what to choose instead.
	if err := b.start(); err == nil {
		b.end()
		return errors.New("with storage.disk=uring the broker has started")
	}
	if n, err := b.logged("allow io_uring, or choose auto or posix"); err != nil || n == 0 {
		return fmt.Errorf("the log does not say what to do (%v)", err)
	}
	b.sets[len(b.sets)-1] = "storage.disk=auto"
	if err := b.start(); err != nil {
		return err
	}
	defer func() { b.end() }()
	c, err := newCast(ctx, b.Address, syncRoles)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.create(ctx); err != nil {
		return err
	}
	for life := range pick(s, 1, 10) {
		if n, err := b.logged(fallbackLine); err != nil || n != life+1 {
			return fmt.Errorf("the log says %d times in %d lives that worker threads take over (%v)", n, life+1, err)
		}
		if uring, err := b.metric("pulsemq_disk_io_uring"); err != nil || uring != 0 {
			return fmt.Errorf("pulsemq_disk_io_uring is %v (%v)", uring, err)
		}
		play, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		random := rand.New(rand.NewPCG(s.random.Uint64(), 1))
		all.Go(func() { c.play(play, random) })
		time.Sleep(time.Duration(200+s.random.IntN(300)) * time.Millisecond)
		err := errors.Join(b.Kill(), b.restart())
		stop()
		all.Wait()
		if err != nil {
			return err
		}
		if len(c.refused) > 0 {
			return fmt.Errorf("messages were refused for good: %v", c.refused)
		}
		if _, err := c.verify(ctx); err != nil {
			return err
		}
	}
	sent, acked := c.counts()
	s.say("%v: %d sent, %d acknowledged through worker threads", strings.ToLower(errno.Error()), sent, acked)
	return errors.Join(b.sound(), b.Terminate())
}
