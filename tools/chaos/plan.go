package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pulsemq/pulsemq/tools/process"
)

const (
	// roundsPerCast is after how many rounds all topics are deleted and created anew, so that reading everything back
	// stays short, and names are used again.
	roundsPerCast = 4

	auditWait   = 2 * time.Minute
	deliverWait = time.Minute
)

// plan is what a run does.
type plan struct {
	program   string // the broker
	folder    string
	forgetful string   // the disk that forgets; empty for the real one
	faults    []string // to choose from; each round begins with the first
	rounds    int
	seed      uint64
	say       func(format string, args ...any)

	random  *rand.Rand
	disk    *forgetfulDisk
	process *process.Process
	listen  string // the broker keeps its port through restarts
	cast    *cast
}

func (p *plan) run(ctx context.Context) (err error) {
	for _, f := range p.faults {
		if !slices.Contains([]string{"kill", "term", "pause", "power"}, f) {
			return fmt.Errorf("there is no fault %q: use kill, term, pause or power", f)
		}
		if f == "power" && p.forgetful == "" {
			return errors.New("the fault power needs --forgetful")
		}
	}
	p.random, p.listen = rand.New(rand.NewPCG(p.seed, 0)), "127.0.0.1:0"
	if err := os.MkdirAll(p.folder, 0o700); err != nil {
		return err
	}
	if p.forgetful != "" {
		if p.disk, err = mountForgetful(p.forgetful, p.folder); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.disk.unmount()) }()
	}
	defer func() {
		if p.process != nil {
			p.process.Destroy()
		}
	}()
	if err := p.start(); err != nil {
		return err
	}
	if p.cast, err = newCast(ctx, p.process.Address, allRoles); err != nil {
		return err
	}
	defer p.cast.close()
	p.cast.powerCut = slices.Contains(p.faults, "power")
	for round := range p.rounds {
		if round%roundsPerCast == 0 {
			if err := p.recast(ctx, round); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		if err := p.round(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	last := p.process
	p.process = nil
	return last.Terminate()
}

func (p *plan) recast(ctx context.Context, round int) error {
	if round > 0 {
		if err := p.cast.remove(ctx); err != nil {
			return err
		}
	}
	return p.cast.create(ctx)
}

// start starts the broker with what may differ between two runs on one folder.
func (p *plan) start() error {
	drivers := []string{"uring", "posix"}
	arguments := []string{
		"--data-dir", filepath.Join(p.dataRoot(), "data"), "--listen", p.listen, "--admin", "127.0.0.1:0",
		"--set", "storage.journal-size=16MiB", "--set", "storage.journal-file-size=4MiB", "--set", "storage.flush-bytes=64KiB",
		"--set", "storage.min-free=16MiB", "--set", "memory.limit=256MiB", "--set", "broker.pin-threads=false",
		"--set", "storage.retention-interval=200ms", "--set", "storage.compaction-interval=300ms",
		"--set", "broker.shards=" + strconv.Itoa(1+p.random.IntN(2)),
		"--set", "storage.disk=" + drivers[p.random.IntN(len(drivers))],
	}
	started, err := process.Start(p.program, filepath.Join(p.folder, "broker.log"), arguments...)
	if err != nil {
		return err
	}
	p.process, p.listen = started, started.Address
	return nil
}

func (p *plan) dataRoot() string {
	if p.disk != nil {
		return p.disk.mount
	}
	return p.folder
}

// round is load, one to three faults, and an audit.
func (p *plan) round(ctx context.Context, number int) error {
	began := time.Now()
	p.cast.pace = time.Duration(p.random.IntN(3)) * time.Millisecond
	play, stop := context.WithCancel(ctx)
	defer stop()
	played := make(chan struct{})
	go func() {
		p.cast.play(play, rand.New(rand.NewPCG(p.seed, uint64(number)+1)))
		close(played)
	}()
	var done []string
	for n := range 1 + p.random.IntN(3) {
		time.Sleep(time.Duration(50+p.random.IntN(700)) * time.Millisecond)
		fault := p.faults[0] // every round has the one that the run is about
		if n > 0 {
			fault = p.faults[p.random.IntN(len(p.faults))]
		}
		done = append(done, fault)
		if err := p.fault(fault); err != nil {
			stop()
			return fmt.Errorf("%s: %w", strings.Join(done, ", "), err)
		}
	}
	time.Sleep(time.Duration(p.random.IntN(300)) * time.Millisecond)
	stop()
	<-played
	if err := p.process.Alive(); err != nil {
		return err
	}
	records, err := p.cast.verify(ctx)
	if err != nil {
		return fmt.Errorf("after %s: %w", strings.Join(done, ", "), err)
	}
	sent, acked := p.cast.counts()
	p.say("round %d: %s; %d sent, %d acknowledged, %d read back, refused %v; %v", number, strings.Join(done, ", "), sent, acked, records, p.cast.refused, time.Since(began).Round(time.Millisecond))
	return nil
}

// fault does one thing to the broker; afterwards it runs.
func (p *plan) fault(name string) error {
	switch name {
	case "pause":
		return p.process.Pause(time.Duration(10+p.random.IntN(500)) * time.Millisecond)
	case "term":
		if err := p.process.Terminate(); err != nil {
			return err
		}
	case "kill":
		p.cast.crashed()
		if err := p.process.Kill(); err != nil {
			return err
		}
	case "power":
		p.cast.crashed()
		if err := p.disk.cut(p.random); err != nil {
			return err
		}
		// What it does on a dead disk is its own affair; it just has to be gone before the disk is back.
		p.process.Destroy()
		if err := p.disk.restore(); err != nil {
			return err
		}
	}
	return p.start()
}
