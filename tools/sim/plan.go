package main

import (
	"math/rand/v2"
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// plan is what a seed chooses before anything happens.
type plan struct {
	shards, reactors int
	topics           int
	producers        int
	consumers        int
	time             int64 // of the faults; then everything heals
	reorder          bool
	diskLatencyMax   int64
	jobDelayMax      int64

	requestSlots, answerSlots, letterSlots, jobsMax int
	ingestBytes, localBytes, holdBytes, cacheBytes  int64
	windowBudget                                    int64
	segmentBytes                                    int64
	flushBytes                                      int64

	ends       []string // ways in which processes end
	endEvery   int64
	diskFaults bool
	fullDisk   bool
	flips      bool
	clockJumps bool
	resets     bool
	stalls     bool
}

func newPlan(r *rand.Rand) plan {
	p := plan{
		shards: 1 + r.IntN(3), reactors: 1 + r.IntN(2), topics: 1 + r.IntN(4), producers: 1 + r.IntN(5), consumers: 1 + r.IntN(4),
		time:           1e9 + r.Int64N(3e9),
		reorder:        r.IntN(2) == 0,
		diskLatencyMax: []int64{20e3, 200e3, 3e6, 30e6}[r.IntN(4)],
		jobDelayMax:    []int64{50e3, 5e6, 200e6}[r.IntN(3)],
		ingestBytes:    4 << 20, localBytes: 16 << 20, holdBytes: 16 << 20, cacheBytes: 1 << 20,
		windowBudget: 32 << 20,
		segmentBytes: []int64{256 << 10, 512 << 10, 4 << 20}[r.IntN(3)],
		flushBytes:   []int64{4 << 10, 32 << 10, 256 << 10}[r.IntN(3)],
		endEvery:     200e6 + r.Int64N(1500e6),
		resets:       r.IntN(2) == 0,
		stalls:       r.IntN(3) == 0,
	}
	p.ends = [][]string{
		{"power"}, {"power", "kill"}, {"power", "kill", "stop", "shards"}, {"kill"}, {"stop", "shards"}, {"power", "power", "twice", "stop"}, {"kill", "shards"}, nil,
	}[r.IntN(8)]
	switch r.IntN(4) {
	case 0: // small rings
		p.requestSlots, p.answerSlots, p.letterSlots = 1<<r.IntN(5), 1<<r.IntN(5), 1<<r.IntN(3)
	case 1: // little memory
		p.holdBytes, p.cacheBytes, p.windowBudget = 1<<20, 256<<10, 1<<20
	case 2: // few workers
		p.jobsMax = 1 + r.IntN(3)
	}
	switch r.IntN(6) {
	case 0:
		p.diskFaults = true
	case 1:
		p.fullDisk = true
	case 2:
		p.clockJumps = true
	}
	return p
}

// config is a node's configuration; what it names below the least that an operator may choose makes a run short.
func (p *plan) config(id core.NodeID) core.Config {
	c, faults := core.ParseConfig(nil, core.Machine{CPUs: 2, MemoryBytes: core.GiB, Hostname: "node"})
	core.Assert(len(faults) == 0, "the defaults are a configuration")
	c.Broker.NodeID, c.Broker.Shards, c.Broker.Reactors = id, p.shards, p.reactors
	c.Memory.Limit = 128 * core.MiB
	c.Storage.JournalFileSize, c.Storage.JournalSize = core.MiB, 4*core.MiB
	c.Storage.SegmentSize = core.Size(p.segmentBytes)
	c.Storage.MinFree = core.MiB
	c.Storage.FlushBytes = core.Size(p.flushBytes)
	c.Producer.MaxBatchBytes = 192 * core.KiB
	c.Network.WindowBytes = 256 * core.KiB
	c.Network.WindowRequests = 32
	c.Network.SendBufferMax = 128 * core.KiB
	c.Network.HandshakeTimeout = 2 * time.Second
	c.Network.SlowReaderTimeout = 2 * time.Second
	c.Consumer.MaxFetchWait = 500 * time.Millisecond
	return c
}
