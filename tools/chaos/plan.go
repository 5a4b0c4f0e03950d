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

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/tools/process"
)

const (
	// roundsPerCast is after how many rounds all topics are deleted and created anew, so that reading everything back
	// stays short, and names are used again.
	roundsPerCast = 4

	auditWait   = 2 * time.Minute
	deliverWait = time.Minute

	// memoryLimit is the broker's, in bytes.
	memoryLimit = 256 << 20
)

// plan is what a run does.
type plan struct {
	program   string // the broker
	folder    string
	forgetful string   // the disk that forgets; empty for the real one
	strict    bool     // there, only the sync of a folder makes names durable
	brief     bool     // stalls are short
	faults    []string // to choose from
	always    string   // with which each round begins; empty: with any of them
	rounds    int
	seed      uint64
	say       func(format string, args ...any)

	random  *rand.Rand
	disk    *forgetfulDisk
	process *process.Process
	listen  string // the broker keeps its port through restarts
	cast    *cast
	prober  *pulsemq.Client // has a connection of its own
	shards  int             // of the broker that runs
	driver  string          // its disk's
	played  map[string]int  // how often each fault was played
	began   int             // how many rounds were begun
}

func (p *plan) run(ctx context.Context) (err error) {
	for _, f := range p.faults {
		if !slices.Contains(processFaults, f) && diskFaultOf(f) == nil {
			return fmt.Errorf("there is no fault %q: use %s, or of the disk %s", f, strings.Join(processFaults, ", "), diskFaultNames())
		}
		if (f == "power" || diskFaultOf(f) != nil) && p.forgetful == "" {
			return fmt.Errorf("the fault %s needs --forgetful", f)
		}
	}
	p.played = map[string]int{}
	p.random, p.listen = rand.New(rand.NewPCG(p.seed, 0)), "127.0.0.1:0"
	if err := os.MkdirAll(p.folder, 0o700); err != nil {
		return err
	}
	if p.forgetful != "" {
		if p.disk, err = mountForgetful(p.forgetful, p.folder, p.strict); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.disk.unmount()) }()
	}
	defer func() {
		if p.process == nil {
			return
		}
		if err != nil {
			p.keepMetrics()
		}
		p.process.Destroy()
	}()
	if err := p.start(); err != nil {
		return err
	}
	if p.cast, err = newCast(ctx, p.process.Address, allRoles); err != nil {
		return err
	}
	defer p.cast.close()
	if p.disk != nil {
		if err := p.makeProbe(ctx); err != nil {
			return err
		}
		defer p.prober.Close()
	}
	p.cast.powerCut = slices.ContainsFunc(p.faults, func(f string) bool { return f == "power" || diskFaultOf(f) != nil })
	for round := range p.rounds {
		p.began = round + 1
		if round%roundsPerCast == 0 || p.cast.hurt() {
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
	if p.disk != nil {
		injected, err := p.disk.injected()
		if err != nil {
			return err
		}
		p.say("played %v; injected %v", p.played, injected)
	}
	last := p.process
	p.process = nil
	return last.Terminate()
}

// keepMetrics writes what the broker says of itself beside its log, for whoever looks at why a round failed.
func (p *plan) keepMetrics() {
	if p.process.Alive() != nil || p.process.Admin == "" {
		return
	}
	b := &broker{Process: p.process}
	b.page("/metrics") // which has the shards count anew, for the next time
	time.Sleep(time.Second)
	if status, text, err := b.page("/metrics"); err == nil && status == 200 {
		_ = os.WriteFile(filepath.Join(p.folder, "metrics.txt"), []byte(text), 0o600)
	}
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
func (p *plan) start() error { return p.startWith(1 + p.random.IntN(2)) }

func (p *plan) startWith(shards int) error {
	p.shards = shards
	drivers := []string{"uring", "posix"}
	p.driver = drivers[p.random.IntN(len(drivers))]
	arguments := []string{
		"--data-dir", filepath.Join(p.dataRoot(), "data"), "--listen", p.listen, "--admin", "127.0.0.1:0",
		"--set", "storage.journal-size=16MiB", "--set", "storage.journal-file-size=4MiB", "--set", "storage.flush-bytes=64KiB",
		"--set", "storage.min-free=16MiB", "--set", "memory.limit=" + strconv.Itoa(memoryLimit), "--set", "broker.pin-threads=false",
		"--set", "storage.retention-interval=200ms", "--set", "storage.compaction-interval=300ms",
		"--set", "broker.shards=" + strconv.Itoa(shards),
		"--set", "storage.disk=" + p.driver,
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
		fault := p.always
		if n > 0 || fault == "" {
			fault = p.faults[p.random.IntN(len(p.faults))]
		}
		done = append(done, fault)
		p.played[fault]++
		if err := p.fault(ctx, fault); err != nil {
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

// processFaults are what can be done to the process, and to the power.
var processFaults = []string{"kill", "term", "pause", "power"}

// fault does one thing to the broker; afterwards it runs.
func (p *plan) fault(ctx context.Context, name string) error {
	if f := diskFaultOf(name); f != nil {
		return f.play(ctx, p)
	}
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
		if err := p.losePower(); err != nil {
			return err
		}
	}
	return p.start()
}

// losePower cuts the power and brings it back; the broker is gone then.
func (p *plan) losePower() error {
	p.cast.crashed()
	if err := p.disk.cut(p.random); err != nil {
		return err
	}
	return p.regainPower()
}

// regainPower brings the power back after a cut.
func (p *plan) regainPower() error {
	// What the broker does on a dead disk is its own affair; it just has to be gone before the disk is back.
	p.process.Destroy()
	return p.disk.restore()
}
