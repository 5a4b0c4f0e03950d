package main

import (
	"context"
	"fmt"
	"time"
)

// interruptions is what a kernel may answer without anything being wrong: less than was asked for, and that it be asked
// again. Nobody notices: no message is refused, nothing is logged as an error, the broker goes on.
var interruptions = diskFault{"interruptions", "short writes and reads, EINTR and EAGAIN, by chance", func(_ context.Context, p *plan) error {
	mark, err := p.markLog()
	if err != nil {
		return err
	}
	refused := p.cast.refusals()
	if p.driver == "posix" { // for io_uring the kernel makes EIO of it: see the disk's README
		if _, err := p.disk.arm("short write 100%%%d", p.random.Uint32()); err != nil {
			return err
		}
	}
	for _, rule := range []string{
		"short read 100%%%d", // of every file
		"fail write 50%%%d EINTR .log", "fail write 50%%%d EAGAIN .jnl", "fail write 50%%%d EINTR .jnl", "fail write 50%%%d EAGAIN .log",
		"fail read 50%%%d EAGAIN .log", "fail read 50%%%d EINTR .log", "fail fsync 50%%%d EINTR .log", "fail fsync 50%%%d EINTR .jnl",
	} {
		if _, err := p.disk.arm(rule, p.random.Uint32()); err != nil {
			return err
		}
	}
	time.Sleep(time.Duration(300+p.random.IntN(700)) * time.Millisecond)
	counts, err := p.disk.disarm()
	if err != nil {
		return err
	}
	if p.driver == "posix" && counts["short write"] == 0 || counts["fail write EINTR"]+counts["fail write EAGAIN"] == 0 {
		return fmt.Errorf("%w: %v", errNotHit, counts)
	}
	if err := p.process.Alive(); err != nil {
		return err
	}
	if found, err := mark.errors(); err != nil || len(found) > 0 {
		return fmt.Errorf("the log has errors: %q, %v", found, err)
	}
	if n := p.cast.refusals(); n > refused {
		return fmt.Errorf("%d messages were refused", n-refused)
	}
	return nil
}}
