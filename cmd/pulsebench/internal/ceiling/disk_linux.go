package ceiling

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
)

// zeroBytes is how much is written at once when a file is made.
const zeroBytes = 1 << 20

// File is a file that is all written, so that no write of a measurement has to find room or touch what the file system
// notes about it. It has no name any more: nothing is left of it whatever happens.
type File struct {
	fd    int
	bytes int64
}

// create makes a file without a name.
func create(folder string, number int) (*File, error) {
	name := filepath.Join(folder, fmt.Sprintf(".pulsebench-ceiling-%d-%d", os.Getpid(), number))
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create %s for direct I/O: %w", name, err)
	}
	f := &File{fd: fd}
	if err := unix.Unlink(name); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Open makes the file.
func (d Disk) Open(ctx context.Context) (*File, error) {
	f, err := create(d.Folder, 0)
	if err != nil {
		return nil, err
	}
	if f.bytes = d.FileBytes / zeroBytes * zeroBytes; f.bytes < zeroBytes {
		err = fmt.Errorf("a file of %d bytes: %d are the least", d.FileBytes, zeroBytes)
	}
	if err == nil {
		err = f.fill(ctx)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fill writes the whole file once.
func (f *File) fill(ctx context.Context) error {
	if err := unix.Fallocate(f.fd, 0, 0, f.bytes); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("reserve %d bytes: %w", f.bytes, err)
	}
	zeros, err := unix.Mmap(-1, 0, zeroBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unix.Munmap(zeros)
	for at := int64(0); at < f.bytes; at += zeroBytes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := whole(unix.Pwrite(f.fd, zeros, at))(len(zeros)); err != nil {
			return err
		}
	}
	return unix.Fdatasync(f.fd)
}

// Close gives the room back.
func (f *File) Close() error { return unix.Close(f.fd) }

// Measure does one kind of access for a time: each of those in flight at least once.
func (f *File) Measure(ctx context.Context, a Access, duration time.Duration) (*Measure, error) {
	blocks := f.bytes / int64(a.Bytes)
	if a.Bytes%sectorBytes != 0 || a.Bytes == 0 || blocks == 0 || a.InFlight < 1 {
		return nil, fmt.Errorf("%d accesses of %d bytes in a file of %d: the size has to be a multiple of %d that the file holds", a.InFlight, a.Bytes, f.bytes, sectorBytes)
	}
	return measure(ctx, a, duration, func(i int64) (*File, int64, bool) { return f, i % blocks * int64(a.Bytes), true })
}

// measure does accesses for a time, each where place says, until it says that there are no more.
func measure(ctx context.Context, a Access, duration time.Duration, place func(i int64) (f *File, at int64, more bool)) (*Measure, error) {
	var next, operations atomic.Int64
	var working sync.WaitGroup
	sum := &Measure{Latency: load.NewLatency()}
	var mu sync.Mutex
	var failed error
	start := time.Now()
	for range a.InFlight {
		working.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			latency := load.NewLatency()
			first := true
			err := work(a, func() (*File, int64, bool) {
				if ctx.Err() != nil || !first && time.Since(start) >= duration {
					return nil, 0, false
				}
				first = false
				return place(next.Add(1) - 1)
			}, func(took time.Duration) {
				operations.Add(1)
				load.Record(latency, int64(took))
			})
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			sum.Latency.Merge(latency)
		})
	}
	working.Wait()
	sum.Took = time.Since(start)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	sum.Operations = operations.Load()
	sum.Bytes = sum.Operations * int64(a.Bytes)
	return sum, failed
}

// work is one of those in flight.
func work(a Access, next func() (f *File, at int64, more bool), done func(took time.Duration)) error {
	block, err := unix.Mmap(-1, 0, a.Bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unix.Munmap(block)
	for i := range block {
		block[i] = byte(i * 131 >> 3)
	}
	for {
		f, at, more := next()
		if !more {
			return nil
		}
		began := time.Now()
		switch a.Operation {
		case Read:
			err = whole(unix.Pread(f.fd, block, at))(len(block))
		case Write, WriteSync:
			err = whole(unix.Pwrite(f.fd, block, at))(len(block))
		}
		if err == nil && a.Operation == WriteSync {
			err = unix.Fdatasync(f.fd)
		}
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		done(time.Since(began))
	}
}

// whole makes a short read or write an error: the sizes are such that none comes.
func whole(n int, err error) func(want int) error {
	return func(want int) error {
		if err == nil && n != want {
			return fmt.Errorf("%d of %d bytes", n, want)
		}
		return err
	}
}
