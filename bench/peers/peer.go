package main

import (
	"context"
	"time"
)

// Workload is what every broker is given.
type Workload struct {
	RecordBytes  int
	BatchRecords int // 1: every message is a request of its own
	Connections  int
	InFlight     int // on each connection
	Duration     time.Duration
}

// Outcome is what a broker has acknowledged.
type Outcome struct {
	Acked  int64
	Took   time.Duration
	P50    time.Duration // of a request; 0 when it was not measured
	P99    time.Duration
	Detail string // how, for the table
}

// PerSecond is the rate.
func (o Outcome) PerSecond() float64 { return float64(o.Acked) / max(o.Took.Seconds(), 1e-9) }

// Peer is a broker in one setting. Its methods are called in this order, Publish and Verify as often as there are
// warm-ups and runs: each with a topic or stream of its own.
type Peer interface {
	// Start starts the broker as a process of its own with new data in a folder, and returns when it serves.
	Start(ctx context.Context, folder string) error

	// Prepare makes what a run publishes into.
	Prepare(ctx context.Context, w Workload) error

	// Publish publishes until the workload's time is over and everything is answered.
	Publish(ctx context.Context, w Workload) (Outcome, error)

	// Verify reads everything back and fails unless each acknowledged message is there once and in its producer's
	// order. It removes what Prepare has made.
	Verify(ctx context.Context, o Outcome) error

	// Stop ends the process. It is called also when something has failed.
	Stop() error
}
