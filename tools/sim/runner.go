package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// options are what is said of runs beside their seeds.
type options struct {
	loud    bool
	grouped bool // every run has groups
	queued  bool // and queue groups
}

// runner runs worlds, each on one goroutine, some at a time.
type runner struct {
	options
	first   uint64
	runs    int
	workers int
	keepOn  bool
	each    func(outcome)
}

// outcome is what a run came to.
type outcome struct {
	seed   uint64
	failed error
	trace  string // the last events of a failed run
	digest uint64
	counts counts
	errors [128]int
	faults injected
}

// simulate is one run. A panic of the broker is a failure as any other.
func simulate(seed uint64, of options) (o outcome) {
	w := newWorld(seed, of)
	o.seed = seed
	defer func() {
		if p := recover(); p != nil {
			o.failed = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		o.digest, o.counts, o.errors, o.faults = w.trace.digest, w.counts, w.errors, w.faults.injected
		if o.failed != nil {
			o.trace = w.trace.last()
		}
	}()
	o.failed = w.run()
	return o
}

// run does all runs, or those before the first failure.
func (r *runner) run() {
	var next atomic.Int64
	var broken atomic.Bool
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range max(1, r.workers) {
		wait.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(r.runs) || broken.Load() {
					return
				}
				o := simulate(r.first+uint64(i), r.options)
				if o.failed != nil && !r.keepOn {
					broken.Store(true)
				}
				mu.Lock()
				r.each(o)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
}

// report adds up what runs did.
type report struct {
	out    io.Writer
	last   bool
	how    string // further flags of the runs
	began  time.Time
	runs   int
	failed int
	total  counts
	faults injected
	digest uint64
	tells  int
}

func (r *report) add(o outcome) {
	if r.runs == 0 {
		r.began = time.Now()
	}
	r.runs++
	r.digest = o.digest
	r.total.add(&o.counts)
	r.faults.add(&o.faults)
	if o.failed != nil {
		r.failed++
		if r.tells++; r.tells <= 3 {
			fmt.Fprintf(r.out, "\nThe last events of seed %d:\n%s", o.seed, o.trace)
		}
		fmt.Fprintf(r.out, "\nseed %d FAILED: %v\nrepeat it: go run ./tools/sim%s -seed %d -runs 1, with -v for every event\n", o.seed, o.failed, r.how, o.seed)
	}
	if r.runs%500 == 0 {
		fmt.Fprintf(r.out, "%d runs, %d failed\n", r.runs, r.failed)
	}
}

func (r *report) end() {
	t := &r.total
	fmt.Fprintf(r.out, "%d runs, %d failed, in %v: %d events, %d requests, %d batches acknowledged, %d shown, %d trims, %d truncations told\n",
		r.runs, r.failed, time.Since(r.began).Round(time.Millisecond), t.turns, t.requests, t.acks, t.shown, t.trims, t.truncations)
	if t.joins > 0 {
		fmt.Fprintf(r.out, "groups: %d joins, %d heartbeats, %d take-overs, %d commits, %d refused as stale, %d seeks\n", t.joins, t.beats, t.takes, t.commits, t.fenced, t.seeks)
	}
	if t.leased > 0 {
		fmt.Fprintf(r.out, "queue groups: %d records leased, %d outcomes took effect, %d dead letters\n", t.leased, t.settled, t.letters)
	}
	fmt.Fprintf(r.out, "injected: %s\n", r.faults.String())
	if r.last {
		fmt.Fprintf(r.out, "trace %016x\n", r.digest)
	}
}

func (c *counts) add(o *counts) {
	c.requests += o.requests
	c.answers += o.answers
	c.acks += o.acks
	c.shown += o.shown
	c.trims += o.trims
	c.ends += o.ends
	c.truncations += o.truncations
	c.turns += o.turns
	c.joins += o.joins
	c.beats += o.beats
	c.takes += o.takes
	c.commits += o.commits
	c.fenced += o.fenced
	c.seeks += o.seeks
	c.leased += o.leased
	c.settled += o.settled
	c.letters += o.letters
}
