package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ceiling"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	fetchTopic       = "pulsebench-fetch"
	fetchRecordBytes = 256
	fetchPartitions  = 16
)

// fill produces what is to be read.
func (t *table) fill(ctx context.Context, broker *host.Server, bytes int64, batchRecords int) error {
	_, err := t.measure(ctx, side{server: broker, keep: true, args: []string{"produce", "--topic=" + fetchTopic, fmt.Sprintf("--partitions=%d", fetchPartitions), "--durability=batch",
		fmt.Sprintf("--record-size=%d", fetchRecordBytes), fmt.Sprintf("--batch-records=%d", batchRecords), "--records=" + number(bytes/fetchRecordBytes)}})
	return err
}

// measureFetchCold reads a log whose bytes are on the disk alone: the broker has just started, and the kernel has
// dropped what it kept of the files.
func measureFetchCold(ctx context.Context, t *table, row *report.Row) error {
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
	if err := t.fill(ctx, broker, t.fetchBytes, batchDefault); err != nil {
		return fmt.Errorf("fill the log: %w", err)
	}
	args := []string{"consume", "--topic=" + fetchTopic, "--connections=1"}
	row.Commands = append(row.Commands, again(args))
	var raw, shares []float64
	var results []*report.Result
	for i := range t.runs {
		bare, err := file.Measure(ctx, ceiling.Access{Operation: ceiling.Read, Bytes: readBytes, InFlight: directDepth}, t.duration)
		if err != nil {
			return err
		}
		if err := errors.Join(broker.Terminate(), broker.DropCaches()); err != nil {
			return err
		}
		if err := broker.Start(); err != nil {
			return err
		}
		result, err := t.measure(ctx, side{server: broker, args: args, keep: true})
		if err != nil {
			return err
		}
		raw, shares = append(raw, bare.MegabytesPerSecond()), append(shares, result.MegabytesPerSecond/bare.MegabytesPerSecond())
		results = append(results, result)
		t.progress(row, i, "%.1f MB/s raw, %.1f MB/s through the broker", bare.MegabytesPerSecond(), result.MegabytesPerSecond)
	}
	row.Add(figureBroker, report.UnitBytes, each(results, func(r *report.Result) float64 { return r.MegabytesPerSecond }), floorOf(row.Name, figureBroker))
	row.Add("raw reads of 1 MiB, 4 in flight", report.UnitBytes, raw, nil)
	row.Add("of the raw reads", report.UnitShare, shares, nil)
	readers(row, results)
	return broker.Stop()
}

// readers adds who has kept the processors busy.
func readers(row *report.Row, results []*report.Result) {
	row.Add("broker's processors", report.UnitCores, each(results, func(r *report.Result) float64 { return cores(r.BrokerCPUSeconds, r) }), nil)
	row.Add("client's processors", report.UnitCores, each(results, func(r *report.Result) float64 { return cores(r.CPUSeconds, r) }), nil)
}

// measureFetchTail reads the newest records, which are in the broker's memory, again and again.
func measureFetchTail(ctx context.Context, t *table, row *report.Row) error {
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	echo, err := t.echoLog(t.tailBytes)
	if err != nil {
		return err
	}
	defer echo.Destroy()
	row.Commands = append(row.Commands, again([]string{"table", "--rows=fetch-tail"}))
	var values, ceilings, shares, broke, mine []float64
	for i := range t.runs {
		memory, memoryTook, err := t.readTail(ctx, echo)
		if err != nil {
			return fmt.Errorf("echo: %w", err)
		}
		ceilings = append(ceilings, float64(memory)/1e6/memoryTook.Seconds())
		if err := t.fill(ctx, broker, t.tailBytes, batchDefault); err != nil {
			return fmt.Errorf("fill the log: %w", err)
		}
		before, busy := broker.ProcessorTime(), report.ProcessorTime()
		bytes, took, err := t.readTail(ctx, broker)
		if err != nil {
			return err
		}
		values = append(values, float64(bytes)/1e6/took.Seconds())
		broke = append(broke, (broker.ProcessorTime()-before).Seconds()/took.Seconds())
		mine = append(mine, (report.ProcessorTime()-busy).Seconds()/took.Seconds())
		shares = append(shares, values[i]/ceilings[i])
		t.progress(row, i, "%.1f MB/s from the echo, %.1f MB/s from the broker", ceilings[i], values[i])
	}
	row.Add(figureBroker, report.UnitBytes, values, floorOf(row.Name, figureBroker))
	row.Add("echo ceiling", report.UnitBytes, ceilings, nil)
	row.Add(figureShare, report.UnitShare, shares, nil)
	row.Add("broker's processors", report.UnitCores, broke, nil)
	row.Add("client's processors", report.UnitCores, mine, nil)
	return errors.Join(t.forget(ctx, broker, fetchTopic), broker.Stop(), echo.Stop())
}

// echoLog starts an echo server that shows as many bytes as the broker's topic has, out of memory.
func (t *table) echoLog(bytes int64) (*host.Server, error) {
	return host.StartEcho(t.folder, fmt.Sprintf("--partitions=%d", fetchPartitions), "--records="+number(bytes/fetchRecordBytes/fetchPartitions))
}

// readTail reads the last bytes of the topic over one connection, again and again until the time of a run is over.
func (t *table) readTail(ctx context.Context, broker *host.Server) (bytes int64, took time.Duration, err error) {
	topic, err := load.OpenTopic(ctx, broker.Address, core.Version, load.TopicSpec{Name: fetchTopic})
	if err != nil {
		return 0, 0, err
	}
	to, err := topic.Offsets(ctx, core.Version, proto.OffsetKindLatest)
	if err != nil {
		return 0, 0, err
	}
	from := make([]int64, len(to))
	for p := range from {
		from[p] = max(to[p]-t.tailBytes/fetchRecordBytes/int64(len(to)), 0)
	}
	clock := load.NewClock()
	for took < t.duration {
		account := ledger.NewSurvey()
		reading, err := load.OpenReading(ctx, load.ReadingSpec{Topic: topic, Version: core.Version, Connections: 1, InFlight: inFlightDefault,
			From: from, To: to, Account: account, Clock: clock})
		if err != nil {
			return 0, 0, err
		}
		start := time.Now()
		err = reading.Run(ctx)
		took += time.Since(start)
		bytes += reading.Tally().Bytes
		reading.Close()
		if err != nil {
			return 0, 0, err
		}
		if verdict := account.Verdict(); !verdict.Clean() {
			return 0, 0, fmt.Errorf("the log does not hold what was acknowledged: %v", verdict)
		}
		if bytes == 0 {
			return 0, 0, errors.New("nothing was read")
		}
	}
	return bytes, took, nil
}

// forget deletes what a row has kept for all of its runs, on a broker that is somebody else's.
func (t *table) forget(ctx context.Context, broker *host.Server, name string) error {
	topic, err := load.OpenTopic(ctx, broker.Address, core.Version, load.TopicSpec{Name: name})
	if err != nil {
		return err
	}
	return topic.Delete(ctx, broker.Address, core.Version)
}

// measureFetchSDK reads a log through the Go client, record by record, by an application that keeps no record, and for
// comparison by one that may.
func measureFetchSDK(ctx context.Context, t *table, row *report.Row) error {
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	if err := t.fill(ctx, broker, t.fetchBytes, batchDefault); err != nil {
		return fmt.Errorf("fill the log: %w", err)
	}
	echo, err := t.echoLog(t.fetchBytes)
	if err != nil {
		return err
	}
	defer echo.Destroy()
	keeping := []string{"consume", "--sdk", "--topic=" + fetchTopic}
	args := with(keeping, "--reuse")
	row.Commands = append(row.Commands, again(args))
	var ceilings, shares, kept []float64
	var results []*report.Result
	for i := range t.runs {
		memory, err := t.measure(ctx, side{server: echo, args: args, keep: true})
		if err != nil {
			return fmt.Errorf("echo: %w", err)
		}
		result, err := t.measure(ctx, side{server: broker, args: args, keep: true})
		if err != nil {
			return err
		}
		keeper, err := t.measure(ctx, side{server: broker, args: keeping, keep: true})
		if err != nil {
			return err
		}
		results, kept = append(results, result), append(kept, keeper.RecordsPerSecond)
		ceilings, shares = append(ceilings, memory.RecordsPerSecond), append(shares, result.RecordsPerSecond/memory.RecordsPerSecond)
		t.progress(row, i, "%.0f records/s from the echo, %.0f records/s from the broker", memory.RecordsPerSecond, result.RecordsPerSecond)
	}
	row.Add(figureClient, report.UnitRecords, each(results, func(r *report.Result) float64 { return r.RecordsPerSecond }), floorOf(row.Name, figureClient))
	row.Add("echo ceiling and client", report.UnitRecords, ceilings, nil)
	row.Add(figureShare, report.UnitShare, shares, nil)
	row.Add("records that may be kept", report.UnitRecords, kept, nil)
	row.Add("bytes", report.UnitBytes, each(results, func(r *report.Result) float64 { return r.MegabytesPerSecond }), nil)
	readers(row, results)
	return errors.Join(t.forget(ctx, broker, fetchTopic), broker.Stop(), echo.Stop())
}
