package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

const (
	restartTopic = "pulsebench-restart"

	// restartSeconds is how long a start may take until every partition answers.
	restartSeconds = 5

	// restartAnswerMax bounds the wait for that.
	restartAnswerMax = 10 * time.Minute
)

// measureRestart kills a broker that has a lot of data and a journal full of frames that are in no segment yet, and
// measures how long the next one takes until every partition answers PRODUCE and FETCH.
func measureRestart(ctx context.Context, t *table, row *report.Row) error {
	row.Workload = fmt.Sprintf("%d partitions, %v, kill -9, start until every partition answers produce and fetch", t.restartPartitions, core.Size(t.restartBytes))
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	topic := []string{"produce", "--topic=" + restartTopic, fmt.Sprintf("--partitions=%d", t.restartPartitions), "--record-size=256"}
	fill := with(topic, "--batch-records=1000", "--durability=sync", "--records="+number(t.restartBytes/256))
	if _, err := t.measure(ctx, side{server: broker, args: fill, keep: true}); err != nil {
		return fmt.Errorf("fill the log: %w", err)
	}
	row.Commands = append(row.Commands, again([]string{"table", "--rows=restart", fmt.Sprintf("--restart-partitions=%d", t.restartPartitions),
		"--restart-size=" + core.Size(t.restartBytes).String()}))
	var ready, whole []float64
	for i := range t.runs {
		// Small requests stay in the journal, and the kill comes right behind them.
		small := with(topic, "--batch-records=1", "--connections=16", "--in-flight=64", "--duration="+t.duration.String())
		if _, err := t.measure(ctx, side{server: broker, args: small, keep: true}); err != nil {
			return fmt.Errorf("fill the journal: %w", err)
		}
		if err := broker.Kill(); err != nil {
			return err
		}
		start := time.Now()
		if err := broker.Start(); err != nil {
			return err
		}
		ready = append(ready, time.Since(start).Seconds())
		probing, cancel := context.WithTimeout(ctx, restartAnswerMax)
		err := load.Probe(probing, broker.Address, core.Version, restartTopic)
		cancel()
		if err != nil {
			return err
		}
		whole = append(whole, time.Since(start).Seconds())
		t.progress(row, i, "ready after %.2f s, every partition answers after %.2f s", ready[i], whole[i])
	}
	row.Add("until every partition answers", report.UnitSeconds, whole, report.AtMost(restartSeconds))
	row.Add("until the log says ready", report.UnitSeconds, ready, nil)
	return errors.Join(broker.Stop())
}
