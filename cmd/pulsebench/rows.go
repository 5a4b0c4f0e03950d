package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
)

// tableRow is a workload of the speed table, and how it is measured.
type tableRow struct {
	name     string
	workload string
	measure  func(context.Context, *table, *report.Row) error
	alone    bool // it needs a broker of its own
}

// The shapes that rows have in common.
var (
	// Prebuilt batches of 1000 records of 256 bytes: 8 connections with 8 requests in flight each.
	batchArgs = []string{"produce", "--record-size=256", "--batch-records=1000", "--connections=8", "--in-flight=8", "--partitions=128"}

	// One record of 256 bytes in each request.
	singleArgs = []string{"produce", "--record-size=256", "--batch-records=1", "--connections=64", "--in-flight=32", "--partitions=128"}

	// The Go client, record by record.
	sdkArgs = []string{"produce", "--sdk", "--record-size=256", "--partitions=128"}
)

// tableRows are all rows, in their order.
func tableRows() []tableRow {
	return []tableRow{
		{name: "batch-none", workload: "256 B x 1000 per batch, 128 partitions, `none`", measure: batched("none")},
		{name: "batch-batch", workload: "256 B x 1000 per batch, 128 partitions, `batch`", measure: batched("batch")},
		{name: "batch-sync", workload: "256 B x 1000 per batch, 128 partitions, `sync`", measure: batched("sync")},
		{name: "single-sync", workload: "256 B single-message requests, 64 connections x 32 in flight, 128 partitions, `sync`", measure: paired(singleArgs, "sync")},
		{name: "one-sync", workload: "1 connection, 1 in flight, 256 B, `sync`, against a raw write+fdatasync", measure: measureOne},
		{name: "sdk-sync", workload: "Go SDK producer, 256 B records one by one through its API, `sync`", measure: paired(sdkArgs, "sync")},
		{name: "fetch-cold", workload: "catch-up fetch, one consumer, cold", measure: measureFetchCold, alone: true},
		{name: "fetch-tail", workload: "fetch, one consumer, tailing from cache", measure: measureFetchTail},
		{name: "fetch-sdk", workload: "fetch through the Go SDK, one consumer", measure: measureFetchSDK},
		{name: "group", workload: "stream group of the Go SDK, 16 members, 128 partitions, 256 B, commits every second", measure: measureGroup},
		{name: "group-change", workload: "stream group, one of many members joins or leaves", measure: measureRebalance, alone: true},
		{name: "group-lives", workload: "stream groups that live and are deleted", measure: measureLives, alone: true},
		{name: "queue", workload: "queue group of the Go SDK, 32 members, 16 partitions, 256 B, each message acknowledged on its own, `sync`", measure: measureQueue},
		{name: "open-loop", workload: "open loop at half of the knee, `sync`, 1 kB", measure: measureOpenLoop},
		{name: "objects", workload: "heap objects per produce and fetch request in the broker under load", measure: measureObjects},
		{name: "idle", workload: "idle broker", measure: measureIdle, alone: true},
		{name: "idle-partitions", workload: "10,000 idle partitions, each with a record", measure: measureIdlePartitions, alone: true},
		{name: "restart", workload: "2,000 partitions with data, kill -9, start until every partition answers produce and fetch", measure: measureRestart, alone: true},
	}
}

// paired is a row of echo and broker in turns.
func paired(args []string, durability string) func(context.Context, *table, *report.Row) error {
	return func(ctx context.Context, t *table, row *report.Row) error {
		return t.pairs(ctx, row, with(args, "--durability="+durability), 128)
	}
}

// with is a copy of arguments with more behind them.
func with(args []string, more ...string) []string { return append(args[:len(args):len(args)], more...) }

// chooseRows finds rows by their names; none names all.
func chooseRows(names []string) ([]tableRow, error) {
	all := tableRows()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []tableRow
	for _, name := range names {
		found := false
		for _, row := range all {
			if row.name == name {
				chosen, found = append(chosen, row), true
			}
		}
		if !found {
			return nil, usagef("--rows %s: the rows are %s", name, strings.Join(rowNames(), ", "))
		}
	}
	return chosen, nil
}

func rowNames() []string {
	var names []string
	for _, row := range tableRows() {
		names = append(names, row.name)
	}
	return names
}

// progress says what a row's run has found.
func (t *table) progress(row *report.Row, run int, format string, args ...any) {
	t.say("%s: run %d of %d: %s", row.Name, run+1, t.runs, fmt.Sprintf(format, args...))
}
