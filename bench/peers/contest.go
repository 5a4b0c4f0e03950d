package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/bench/peers/nats"
)

// Settings are what a caller decides.
type Settings struct {
	Programs string // folder of pulsemq and pulsebench
	Folder   string // on the disk that is measured
	Runs     int
	Duration time.Duration
	Warmup   time.Duration // 0: none
	Rest     time.Duration // before each turn: the drive may still be told of what the one before has left
	Streams  []int         // of JetStream; the best of them counts
	Say      func(format string, args ...any)
}

// Contestant is a broker in one setting.
type Contestant struct {
	Name   string // those of one name are tried with different details, and the best counts
	Detail string
	Make   func() Peer
}

// Contest is a workload and who takes part. The first contestant is ours.
type Contest struct {
	Name        string
	Workload    string // for people
	Shapes      func(s Settings) (ours, theirs Workload)
	Contestants func(s Settings) []Contestant
	Floors      map[string]float64 // by the name of a contestant: how many times as much as that one ours does
}

// Partitions of our topics.
const partitions = 128

// Names in tables.
const (
	ourName        = "PulseMQ, sync"
	natsAlwaysName = "NATS JetStream, sync_interval: always"
	natsName       = "NATS JetStream, default settings"
	natsFastName   = "NATS JetStream, fast batch publish, default settings"
)

// contests are all that there are.
func contests() []Contest {
	return []Contest{
		{
			Name: "singles", Workload: "256 B single messages, 64 connections x 32 in flight, each acknowledged",
			Shapes: func(s Settings) (Workload, Workload) {
				w := Workload{RecordBytes: 256, BatchRecords: 1, Connections: 64, InFlight: 32, Duration: s.Duration}
				return w, w
			},
			Contestants: func(s Settings) []Contestant {
				all := []Contestant{ours(s)}
				for _, n := range s.Streams {
					all = append(all, jetstreamOf(natsAlwaysName, nats.SyncAlways, n, false), jetstreamOf(natsName, nats.SyncDefault, n, false))
				}
				return all
			},
			Floors: map[string]float64{natsAlwaysName: 100, natsName: 5},
		},
		{
			Name: "batches", Workload: "256 B messages in batches: ours of 1000, theirs as their client makes them",
			Shapes: func(s Settings) (Workload, Workload) {
				w := Workload{RecordBytes: 256, BatchRecords: 1000, Connections: 8, InFlight: 8, Duration: s.Duration}
				return w, w
			},
			Contestants: func(s Settings) []Contestant {
				all := []Contestant{ours(s)}
				for _, n := range s.Streams {
					all = append(all, jetstreamOf(natsFastName, nats.SyncDefault, n, true))
				}
				return all
			},
			Floors: map[string]float64{natsFastName: 15},
		},
	}
}

func ours(s Settings) Contestant {
	return Contestant{Name: ourName, Detail: fmt.Sprintf("%d partitions", partitions),
		Make: func() Peer { return &pulsemq{programs: s.Programs, durability: "sync", partitions: partitions} }}
}

func jetstreamOf(name, sync string, streams int, fast bool) Contestant {
	return Contestant{Name: name, Detail: fmt.Sprintf("%d streams", streams),
		Make: func() Peer { return &jetstream{sync: sync, streams: streams, fast: fast} }}
}

// Standing is what a contestant came to.
type Standing struct {
	Name     string    `json:"name"`
	Detail   string    `json:"detail"`
	Rates    []float64 `json:"messages_per_second"` // of each run
	Median   float64   `json:"median"`
	P50      []float64 `json:"p50_ms"` // of a request in each run; 0 where it is not measured
	P99      []float64 `json:"p99_ms"`
	Ratios   []float64 `json:"ours_times"` // ours of the same turn, divided by this
	Ratio    float64   `json:"ours_times_median"`
	Best     bool      `json:"best"` // of those of the same name
	Floor    float64   `json:"ours_times_at_least,omitempty"`
	FloorMet bool      `json:"floor_met"`
	Failed   string    `json:"failed,omitempty"` // why there are no figures
}

// run has everybody take a turn, run by run.
func (c Contest) run(ctx context.Context, s Settings) ([]Standing, error) {
	contestants := c.Contestants(s)
	standings := make([]Standing, len(contestants))
	oursShape, theirShape := c.Shapes(s)
	for i, one := range contestants {
		standings[i] = Standing{Name: one.Name, Detail: one.Detail, Floor: c.Floors[one.Name]}
	}
	for run := range s.Runs {
		for i, one := range contestants {
			shape := theirShape
			if i == 0 {
				shape = oursShape
			}
			standing := &standings[i]
			if standing.Failed != "" {
				continue
			}
			o, err := turn(ctx, s, one.Make(), shape)
			if err != nil {
				if ctx.Err() != nil || i == 0 {
					return nil, fmt.Errorf("%s, %s: %w", one.Name, one.Detail, err)
				}
				// What a peer cannot do in one setting is a result too, and the others go on.
				standing.Failed = err.Error()
				s.Say("%s: run %d of %d: %s, %s: %v", c.Name, run+1, s.Runs, one.Name, one.Detail, err)
				continue
			}
			standing.Rates = append(standing.Rates, o.PerSecond())
			standing.P50, standing.P99 = append(standing.P50, millis(o.P50)), append(standing.P99, millis(o.P99))
			standing.Ratios = append(standing.Ratios, standings[0].Rates[run]/o.PerSecond())
			s.Say("%s: run %d of %d: %s, %s: %.0f messages/s", c.Name, run+1, s.Runs, one.Name, one.Detail, o.PerSecond())
		}
	}
	judge(standings)
	return standings, nil
}

// turn is one run of one contestant: a new process with new data, a warm-up, and what counts.
func turn(ctx context.Context, s Settings, p Peer, w Workload) (_ Outcome, err error) {
	select {
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	case <-time.After(s.Rest):
	}
	folder, err := os.MkdirTemp(s.Folder, "pulsemq-peers-")
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := p.Start(ctx, folder); err != nil {
		return Outcome{}, err
	}
	var o Outcome
	for _, d := range []time.Duration{s.Warmup, w.Duration} {
		if d == 0 {
			continue
		}
		w.Duration = d
		if err := p.Prepare(ctx, w); err != nil {
			return Outcome{}, fmt.Errorf("prepare: %w", err)
		}
		if o, err = p.Publish(ctx, w); err != nil {
			return Outcome{}, fmt.Errorf("publish: %w", err)
		}
		if o.Acked == 0 {
			return Outcome{}, errors.New("nothing was acknowledged")
		}
		if err := p.Verify(ctx, o); err != nil {
			return Outcome{}, fmt.Errorf("what was acknowledged does not verify: %w", err)
		}
	}
	return o, nil
}

// judge takes medians, and finds the best detail of each name: that one is held against the floor.
func judge(standings []Standing) {
	best := make(map[string]int)
	for i := range standings {
		s := &standings[i]
		if s.Failed != "" {
			continue
		}
		s.Median, s.Ratio = median(s.Rates), median(s.Ratios)
		if at, there := best[s.Name]; !there || s.Median > standings[at].Median {
			best[s.Name] = i
		}
	}
	for _, i := range best {
		s := &standings[i]
		s.Best = true
		s.FloorMet = s.Floor > 0 && s.Ratio >= s.Floor
	}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
