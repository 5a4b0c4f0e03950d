package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pulsemq/pulsemq/bench/peers/nats"
)

// jetstream is NATS JetStream on files: this program again, as a server.
type jetstream struct {
	sync    string // nats.SyncAlways or nats.SyncDefault
	streams int
	fast    bool // fast batch publish instead of single messages

	server    *server
	runs      int
	prepared  *nats.Streams
	published nats.Published
}

func (j *jetstream) Start(ctx context.Context, folder string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	j.server, err = startServer(ctx, program, "serve-nats", filepath.Join(folder, "nats"), j.sync)
	return err
}

func (j *jetstream) Prepare(ctx context.Context, _ Workload) (err error) {
	j.runs++
	j.prepared, err = nats.Create(ctx, j.server.address, fmt.Sprintf("peers-%d", j.runs), j.streams, j.fast)
	return err
}

func (j *jetstream) Publish(ctx context.Context, w Workload) (Outcome, error) {
	load := nats.Load{RecordBytes: w.RecordBytes, Connections: w.Connections, InFlight: w.InFlight, Duration: w.Duration}
	publish := j.prepared.Singles
	if j.fast {
		publish = j.prepared.Fast
	}
	var err error
	if j.published, err = publish(ctx, load); err != nil {
		return Outcome{}, err
	}
	return Outcome{Acked: j.published.Acked, Took: j.published.Took, P50: j.published.P50, P99: j.published.P99, Detail: fmt.Sprintf("%d streams", j.streams)}, nil
}

func (j *jetstream) Verify(ctx context.Context, _ Outcome) error {
	return errors.Join(j.prepared.Verify(ctx, j.published), j.prepared.Remove(ctx))
}

func (j *jetstream) Stop() error {
	if j.server == nil {
		return nil
	}
	return j.server.stop()
}
