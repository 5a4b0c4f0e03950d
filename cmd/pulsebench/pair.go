package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
)

// pairs measures an echo and a broker in turns with the same client, and fills in the row.
func (b *bench) pairs(ctx context.Context, row *report.Row, args []string, partitions int) error {
	echo, err := host.StartEcho(b.folder, "--partitions", number(int64(partitions)))
	if err != nil {
		return err
	}
	defer echo.Destroy()
	broker, err := b.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	ceiling := side{server: echo, args: withoutTopic(args), blind: true}
	ours := side{server: broker, args: args}
	row.Commands = append(row.Commands, again(append(slices.Clone(args), lasting(b.duration)...)))
	if b.warmup > 0 {
		for _, s := range []side{ceiling, ours} {
			s.args, s.stall = append(slices.Clone(s.args), lasting(b.warmup)...), true // it proves nothing
			if _, err := b.measure(ctx, s); err != nil {
				return fmt.Errorf("warm up: %w", err)
			}
		}
	}
	var a, o []*report.Result
	for i := range b.runs {
		for _, s := range []side{ceiling, ours} {
			s.args = append(slices.Clone(s.args), lasting(b.duration)...)
			result, err := b.measure(ctx, s)
			if err != nil {
				return err
			}
			name := "broker"
			if s.blind {
				name = "echo"
				a = append(a, result)
			} else {
				o = append(o, result)
			}
			b.say("%s: run %d of %d, %s: %.0f records/s, %.1f MB/s", row.Name, i+1, b.runs, name, result.RecordsPerSecond, result.MegabytesPerSecond)
		}
	}
	fillPairs(row, a, o)
	return errors.Join(broker.Stop(), echo.Stop())
}

// fillPairs turns runs of both sides into figures.
func fillPairs(row *report.Row, ceiling, broker []*report.Result) {
	row.Add(figureBroker, report.UnitRecords, each(broker, func(r *report.Result) float64 { return r.RecordsPerSecond }), floorOf(row.Name, figureBroker))
	row.Add("broker, bytes", report.UnitBytes, each(broker, func(r *report.Result) float64 { return r.MegabytesPerSecond }), nil)
	row.Add("echo ceiling", report.UnitRecords, each(ceiling, func(r *report.Result) float64 { return r.RecordsPerSecond }), nil)
	var shares []float64
	for i := range broker {
		shares = append(shares, broker[i].RecordsPerSecond/ceiling[i].RecordsPerSecond)
	}
	row.Add(figureShare, report.UnitShare, shares, floorOf(row.Name, figureShare))
	latencies(row, broker)
	row.Add("broker's processors", report.UnitCores, each(broker, func(r *report.Result) float64 { return cores(r.BrokerCPUSeconds, r) }), nil)
	row.Add("client's processors beside the broker", report.UnitCores, each(broker, func(r *report.Result) float64 { return cores(r.CPUSeconds, r) }), nil)
	row.Add("echo's processors", report.UnitCores, each(ceiling, func(r *report.Result) float64 { return cores(r.BrokerCPUSeconds, r) }), nil)
	row.Add("client's processors beside the echo", report.UnitCores, each(ceiling, func(r *report.Result) float64 { return cores(r.CPUSeconds, r) }), nil)
}

// latencies adds the broker's, which flat out say how deep the queue is that the run keeps full.
func latencies(row *report.Row, results []*report.Result) {
	if results[0].Latency == nil {
		return
	}
	row.Add("p50", report.UnitMillis, each(results, func(r *report.Result) float64 { return r.Latency.P50 }), nil)
	row.Add("p99", report.UnitMillis, each(results, func(r *report.Result) float64 { return r.Latency.P99 }), nil)
	row.Add("p99.9", report.UnitMillis, each(results, func(r *report.Result) float64 { return r.Latency.P999 }), nil)
}

// each takes one value of every result.
func each(results []*report.Result, value func(*report.Result) float64) []float64 {
	var values []float64
	for _, r := range results {
		values = append(values, value(r))
	}
	return values
}

// again is the command that repeats a side, for people.
func again(args []string) string {
	return "bin/pulsebench " + report.CommandLine(args)
}

// withoutTopic drops what a server that keeps nothing cannot have. Arguments have the form --name=value.
func withoutTopic(args []string) []string {
	var kept []string
	for _, arg := range args {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "--durability", "--replicas", "--topic":
		default:
			kept = append(kept, arg)
		}
	}
	return kept
}
