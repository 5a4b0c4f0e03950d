package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ceiling"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
)

// oneArgs is one record at a time: nothing is gathered, and each request waits for its own sync.
var oneArgs = []string{"produce", "--record-size=256", "--batch-records=1", "--connections=1", "--in-flight=1", "--partitions=1", "--durability=sync"}

// measureOne measures one write with its fdatasync on the bare disk, and one request at a broker, in turns.
func measureOne(ctx context.Context, t *table, row *report.Row) error {
	file, err := (ceiling.Disk{Folder: t.folder, FileBytes: t.fileBytes, Duration: t.duration}).Open(ctx)
	if err != nil {
		return err
	}
	defer file.Close()
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	row.Commands = append(row.Commands, again(append(oneArgs[:len(oneArgs):len(oneArgs)], lasting(t.duration)...)))
	if t.warmup > 0 {
		if _, err := t.measure(ctx, side{server: broker, args: with(oneArgs, lasting(t.warmup)...), stall: true}); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	var raw, above []float64
	var results []*report.Result
	for i := range t.runs {
		bare, err := file.Measure(ctx, ceiling.Access{Operation: ceiling.WriteSync, Bytes: ceiling.Align(1), InFlight: 1}, t.duration)
		if err != nil {
			return err
		}
		result, err := t.measure(ctx, side{server: broker, args: with(oneArgs, lasting(t.duration)...)})
		if err != nil {
			return err
		}
		rawLatency := report.LatencyOf(bare.Latency)
		if rawLatency == nil {
			return fmt.Errorf("not one write ended in %v", t.duration)
		}
		raw, above = append(raw, rawLatency.P50), append(above, result.Latency.P50-rawLatency.P50)
		results = append(results, result)
		t.progress(row, i, "p50 %.3f ms raw, %.3f ms at the broker", rawLatency.P50, result.Latency.P50)
	}
	row.Add(figureAbove, report.UnitMillis, above, floorOf(row.Name, figureAbove))
	row.Add("raw write+fdatasync, p50", report.UnitMillis, raw, nil)
	latencies(row, results)
	row.Add("broker", report.UnitRecords, each(results, func(r *report.Result) float64 { return r.RecordsPerSecond }), nil)
	return errors.Join(broker.Stop())
}
