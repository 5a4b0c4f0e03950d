package main

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/netio"
	"github.com/pulsemq/pulsemq/shard/reactor"
)

// progressLogEvery bounds how often a long start is logged.
const progressLogEvery = 5 * time.Second

// startProgress adds up what the shards report while they start, for /readyz and
// the log.
type startProgress struct {
	health *netio.Health
	log    *slog.Logger
	served atomic.Bool

	mu     sync.Mutex
	shards map[core.ShardID]reactor.Progress
	logged time.Time
	stages stageTimes
}

// stageTimes says how long a start was in each of its stages.
type stageTimes struct {
	stage string // empty before the first
	since time.Time
	took  map[string]time.Duration
}

// enter ends the stage before.
func (t *stageTimes) enter(stage string, now time.Time) {
	if stage == t.stage {
		return
	}
	if t.stage != "" {
		t.took[t.stage] += now.Sub(t.since)
	}
	t.stage, t.since = stage, now
}

// fields are the log's: "journal_ms", 12, "metadata_ms", 3 and so on, for every stage.
func (t *stageTimes) fields() (fields []any) {
	for _, stage := range startStages {
		if stage != "ready" {
			fields = append(fields, stage+"_ms", t.took[stage].Milliseconds())
		}
	}
	return fields
}

func newStartProgress(health *netio.Health, log *slog.Logger) *startProgress {
	return &startProgress{health: health, log: log, shards: map[core.ShardID]reactor.Progress{}, logged: time.Now(),
		stages: stageTimes{took: map[string]time.Duration{}}}
}

// startStages are the stages in their order; a node is in that of its slowest shard.
var startStages = []string{"journal", "metadata", "partitions", "ready"}

// note takes one shard's report. Shards call it from their own threads.
func (p *startProgress) note(one reactor.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.Total == 0 { // the stages before and after the partitions do not count them
		one.Partitions, one.Total = p.shards[one.Shard].Partitions, p.shards[one.Shard].Total
	}
	p.shards[one.Shard] = one
	sum := netio.Progress{}
	slowest := len(startStages) - 1
	for _, s := range p.shards {
		sum.PartitionsDone += s.Partitions
		sum.PartitionsTotal += s.Total
		for i, stage := range startStages {
			if s.Stage == stage {
				slowest = min(slowest, i)
			}
		}
	}
	sum.Stage = startStages[slowest]
	if sum.Stage == "ready" { // of the shards; the listener comes after them
		sum.Stage = "listening"
	}
	p.stages.enter(startStages[slowest], time.Now())
	p.health.SetProgress(sum)
	if time.Since(p.logged) >= progressLogEvery {
		p.logged = time.Now()
		p.log.Info("starting", "stage", sum.Stage, "partitions_done", sum.PartitionsDone, "partitions_total", sum.PartitionsTotal)
	}
}

// ready is called once everything serves.
func (p *startProgress) ready() {
	p.mu.Lock()
	defer p.mu.Unlock()
	progress := p.health.Progress()
	progress.Ready, progress.Stage = true, "ready"
	p.health.SetProgress(progress)
	p.served.Store(true)
}

// stageFields say how long each stage took, for the log.
func (p *startProgress) stageFields() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stages.fields()
}

func (p *startProgress) isReady() bool { return p.served.Load() }
