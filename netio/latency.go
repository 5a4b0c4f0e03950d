package netio

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencyWindow is how old what the quantiles speak of may get at least: with a
// scraper that comes often they cover the last one to two of these.
const latencyWindow = time.Minute

// quantiles that the page shows.
var quantiles = []struct {
	percentile float64
	label      string
}{{50, "0.5"}, {95, "0.95"}, {99, "0.99"}, {99.9, "0.999"}, {99.99, "0.9999"}}

// latencies turns histograms that count since the start into quantiles of the
// last time. Histograms come as whole pictures, so that the threads which fill
// them never have to reset anything.
type latencies struct {
	mu     sync.Mutex
	stages map[string]*latencyStage
}

// latencyStage keeps two earlier pictures; quantiles are of what came after the older.
type latencyStage struct {
	older, newer *hdrhistogram.Snapshot
	taken        time.Time // of newer
}

// write adds one stage's summary to a page, from pictures that are merged.
func (l *latencies) write(p *page, stage string, now time.Time, pictures ...*hdrhistogram.Histogram) {
	total := newLatency()
	for _, h := range pictures {
		if h != nil {
			total.Merge(h)
		}
	}
	recent := l.recent(stage, now, total)
	f := p.family("pulsemq_latency_seconds", summary,
		"Time that requests spend in a stage; quantiles are of the last one to two minutes, count and sum since the start.")
	at := label{"stage", stage}
	for _, q := range quantiles {
		f.add("", float64(recent.ValueAtQuantile(q.percentile))/1e9, at, label{"quantile", q.label})
	}
	f.add("_sum", total.Mean()*float64(total.TotalCount())/1e9, at)
	f.add("_count", float64(total.TotalCount()), at)
}

// recent is what total counts beyond the older picture.
func (l *latencies) recent(stage string, now time.Time, total *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	picture := total.Export()
	if l.stages == nil {
		l.stages = make(map[string]*latencyStage)
	}
	s := l.stages[stage]
	if s == nil {
		s = &latencyStage{taken: now}
		l.stages[stage] = s
	}
	if now.Sub(s.taken) >= latencyWindow {
		s.older, s.newer, s.taken = s.newer, picture, now
	}
	if s.older == nil {
		return total
	}
	difference := *picture
	difference.Counts = make([]int64, len(picture.Counts))
	for i, n := range picture.Counts {
		difference.Counts[i] = max(0, n-s.older.Counts[i])
	}
	return hdrhistogram.Import(&difference)
}
