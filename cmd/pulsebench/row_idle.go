package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

// idleTopicPartitions is how many partitions each idle topic has.
const idleTopicPartitions = 100

// measureIdle looks at a new broker that nobody talks to.
func measureIdle(ctx context.Context, t *table, row *report.Row) error {
	var busy, resident []float64
	for i := range t.runs {
		broker, err := t.broker()
		if err != nil {
			return err
		}
		c, m, err := t.watchIdle(ctx, broker)
		if err = errors.Join(err, broker.Stop()); err != nil {
			broker.Destroy()
			return err
		}
		busy, resident = append(busy, c), append(resident, m)
		t.progress(row, i, "%.3f cores, %.1f MB", c, m)
	}
	row.Commands = append(row.Commands, again([]string{"table", "--rows=idle"}))
	row.Add(figureProcessor, report.UnitCores, busy, floorOf(row.Name, figureProcessor))
	row.Add(figureResident, report.UnitMemory, resident, floorOf(row.Name, figureResident))
	return nil
}

// watchIdle lets a broker be, and returns what it took of a processor and its memory at the end.
func (t *table) watchIdle(ctx context.Context, broker *host.Server) (cores, megabytes float64, err error) {
	// What a start leaves to be done is not what idling costs.
	if err := t.letBe(ctx); err != nil {
		return 0, 0, err
	}
	before, known := broker.Usage(ctx)
	if !known {
		return 0, 0, errors.New("nobody can say what the broker takes")
	}
	start := time.Now()
	if err := t.letBe(ctx); err != nil {
		return 0, 0, err
	}
	after, _ := broker.Usage(ctx)
	return (after.Processor - before.Processor).Seconds() / time.Since(start).Seconds(), float64(after.Resident) / 1e6, nil
}

// letBe waits for the settle time.
func (t *table) letBe(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(t.settle):
		return nil
	}
}

// measureIdlePartitions looks at a broker with many partitions that nobody uses.
func measureIdlePartitions(ctx context.Context, t *table, row *report.Row) error {
	row.Workload = fmt.Sprintf("%d idle partitions, each with a record", t.idlePartitions)
	var busy, resident []float64
	for i := range t.runs {
		broker, err := t.broker()
		if err != nil {
			return err
		}
		var c, m float64
		if err = t.createIdle(ctx, broker); err == nil {
			c, m, err = t.watchIdle(ctx, broker)
		}
		if err = errors.Join(err, broker.Stop()); err != nil {
			broker.Destroy()
			return err
		}
		busy, resident = append(busy, c), append(resident, m)
		t.progress(row, i, "%.3f cores, %.1f MB", c, m)
	}
	row.Commands = append(row.Commands, again([]string{"table", "--rows=idle-partitions", fmt.Sprintf("--idle-partitions=%d", t.idlePartitions)}))
	row.Add(figureResident, report.UnitMemory, resident, floorOf(row.Name, figureResident))
	row.Add(figureProcessor, report.UnitCores, busy, nil)
	return nil
}

// createIdle makes the partitions, and has each store a record and show it: one that was never used is not there yet.
func (t *table) createIdle(ctx context.Context, broker *host.Server) error {
	for left := t.idlePartitions; left > 0; left -= idleTopicPartitions {
		spec := load.TopicSpec{Name: t.newTopic(), Partitions: uint32(min(left, idleTopicPartitions))}
		if _, err := load.OpenTopic(ctx, broker.Address, core.Version, spec); err != nil {
			return err
		}
		if err := probeAll(ctx, broker, spec.Name); err != nil {
			return err
		}
	}
	return nil
}
