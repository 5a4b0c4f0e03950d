package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// pulsemq is PulseMQ, driven by pulsebench: prebuilt batches over raw connections, read back and verified by itself.
type pulsemq struct {
	programs   string // folder
	durability string
	partitions int

	server *server
	topics int
}

func (p *pulsemq) Start(ctx context.Context, folder string) (err error) {
	p.server, err = startServer(ctx, filepath.Join(p.programs, "pulsemq"), "--data-dir", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	return err
}

// Prepare does nothing: pulsebench creates the topic.
func (p *pulsemq) Prepare(context.Context, Workload) error { return nil }

// Publish publishes and verifies: pulsebench does both, and fails when the log does not hold what was acknowledged.
func (p *pulsemq) Publish(ctx context.Context, w Workload) (Outcome, error) {
	p.topics++
	command := exec.CommandContext(ctx, filepath.Join(p.programs, "pulsebench"), "produce", "--brokers", p.server.address,
		"--topic", fmt.Sprintf("peers-%d", p.topics), "--partitions", strconv.Itoa(p.partitions), "--durability", p.durability,
		"--record-size", strconv.Itoa(w.RecordBytes), "--batch-records", strconv.Itoa(w.BatchRecords),
		"--connections", strconv.Itoa(w.Connections), "--in-flight", strconv.Itoa(w.InFlight), "--duration", w.Duration.String(), "--json", "-")
	var errors bytes.Buffer
	command.Stderr = &errors
	text, err := command.Output()
	if err != nil {
		return Outcome{}, fmt.Errorf("pulsebench: %w: %s", err, errors.Bytes())
	}
	var result struct {
		Records  int64
		Seconds  float64
		Latency  struct{ P50, P99 float64 } `json:"latency_ms"`
		Workload struct {
			Reached string `json:"durability_reached"`
		}
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return Outcome{}, fmt.Errorf("pulsebench says %s: %w", text, err)
	}
	if result.Workload.Reached != p.durability {
		return Outcome{}, fmt.Errorf("asked for durability %s, acknowledged was %q", p.durability, result.Workload.Reached)
	}
	millis := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	return Outcome{Acked: result.Records, Took: time.Duration(result.Seconds * float64(time.Second)), P50: millis(result.Latency.P50), P99: millis(result.Latency.P99),
		Detail: fmt.Sprintf("%d partitions", p.partitions)}, nil
}

// Verify has nothing left to do.
func (p *pulsemq) Verify(context.Context, Outcome) error { return nil }

func (p *pulsemq) Stop() error {
	if p.server == nil {
		return nil
	}
	return p.server.stop()
}
