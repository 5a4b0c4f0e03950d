package main

import (
	"context"
	"fmt"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ceiling"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
)

// What the disk of the batch rows is asked for beside the broker: as many files as there are partitions, made a moment
// before, and writes as large as a batch. More of them in flight bring no more.
const (
	newFiles        = 128
	newFileBytes    = 32 << 20
	newFilesFlight  = 16
	batchFrameBytes = 1000 * (256 + recordOverhead)
)

// batched is a row of echo and broker in turns, and of what the disk takes without either.
func batched(durability string) func(context.Context, *table, *report.Row) error {
	return func(ctx context.Context, t *table, row *report.Row) error {
		if err := t.pairs(ctx, row, with(batchArgs, "--durability="+durability), newFiles); err != nil || t.brokers != "" {
			return err
		}
		what, access := "raw writes to new files", ceiling.Access{Operation: ceiling.Write, Bytes: ceiling.Align(batchFrameBytes), InFlight: newFilesFlight}
		if durability == "sync" {
			what, access.Operation = "raw writes with fdatasync to new files", ceiling.WriteSync
		}
		var raw []float64
		for i := range t.runs {
			if err := host.Quiet(ctx, t.folder); err != nil {
				return err
			}
			m, err := (ceiling.NewFiles{Folder: t.folder, Files: newFiles, FileBytes: newFileBytes}).Measure(ctx, access, t.duration)
			if err != nil {
				if ctx.Err() == nil {
					row.Notes = append(row.Notes, "what the disk takes in new files could not be measured here")
				}
				return ctx.Err()
			}
			raw = append(raw, m.MegabytesPerSecond())
			t.progress(row, i, "%s: %.1f MB/s", what, m.MegabytesPerSecond())
		}
		row.Add(what, report.UnitBytes, raw, nil)
		row.Notes = append(row.Notes, fmt.Sprintf("%s: %d files, %d KiB at a time, %d in flight", what, newFiles, access.Bytes>>10, newFilesFlight))
		return nil
	}
}
