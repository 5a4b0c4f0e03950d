package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/chart"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
)

// openArgs is the load of the open loop. There is room in flight for half a second of the highest rates, so that it is
// the broker that holds the load back and not the client.
var openArgs = []string{"produce", "--record-size=1024", "--batch-records=100", "--connections=16", "--in-flight=256", "--partitions=128", "--durability=sync"}

// openTimes is how many times as long as other runs these are: one request in ten thousand is looked at.
const openTimes = 3

// measureOpenLoop finds the knee, and measures latency at half of it.
func measureOpenLoop(ctx context.Context, t *table, row *report.Row) error {
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	if t.warmup > 0 {
		if _, err := t.measure(ctx, side{server: broker, args: with(openArgs, lasting(t.warmup)...), stall: true}); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	sweep, err := t.sweeper.run(ctx, &t.bench, broker, openArgs, t.folder)
	if err != nil {
		return fmt.Errorf("find the knee: %w", err)
	}
	sweepAgain := "bin/pulsebench " + report.CommandLine(append([]string{"sweep"}, openArgs[1:]...))
	if err := t.file("open-loop.json", sweep.Public(sweepAgain).WriteJSON); err != nil {
		return err
	}
	if err := t.picture(report.Picture{Name: "open-loop.svg", Of: "Throughput against latency"}, func(w io.Writer) error { return chart.WriteCurve(w, curveOf(sweep)) }); err != nil {
		return err
	}
	if sweep.Knee == 0 {
		return errors.New("no rate is good, so there is no knee")
	}
	args := with(openArgs, fmt.Sprintf("--rate=%.0f", sweep.Knee/2), "--duration="+(openTimes*t.duration).String())
	row.Commands = append(row.Commands, sweepAgain, again(args))
	var results []*report.Result
	for i := range t.runs {
		result, err := t.measure(ctx, side{server: broker, args: args})
		if err != nil {
			return err
		}
		if result.Latency == nil {
			return errors.New("nothing was answered")
		}
		results = append(results, result)
		t.progress(row, i, "p99 %.3f ms, p99.9 %.3f ms", result.Latency.P99, result.Latency.P999)
	}
	row.Add("knee", report.UnitRecords, []float64{sweep.Knee}, nil)
	row.Notes = append(row.Notes, fmt.Sprintf("the knee: %.0f %% of what was offered went through and p99 stayed under %g ms for %g s; each run at half of it took %v",
		100*sweep.AchievedMin, sweep.P99Max, sweep.StepSeconds, openTimes*t.duration))
	if sweep.Omitted {
		row.Notes = append(row.Notes, "the knee may be higher: higher rates do not fit on the disk for so long")
	}
	row.Add("rate", report.UnitRecords, each(results, func(r *report.Result) float64 { return r.RecordsPerSecond }), nil)
	row.Add("p50", report.UnitMillis, each(results, func(r *report.Result) float64 { return r.Latency.P50 }), nil)
	row.Add(figureP99, report.UnitMillis, each(results, func(r *report.Result) float64 { return r.Latency.P99 }), floorOf(row.Name, figureP99))
	row.Add(figureP999, report.UnitMillis, each(results, func(r *report.Result) float64 { return r.Latency.P999 }), floorOf(row.Name, figureP999))
	row.Add("p99.99", report.UnitMillis, each(results, func(r *report.Result) float64 { return r.Latency.P9999 }), nil)
	return broker.Stop()
}
