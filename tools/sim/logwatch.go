package main

import (
	"context"
	"fmt"
	"log/slog"
)

// refusedPartition is what a start says of a partition whose files it could not read. It serves the others; another
// start is the way out.
const refusedPartition = "a partition cannot serve"

// logWatch is the nodes' log: a part of the trace, and where faults surface.
type logWatch struct{ world *world }

// Enabled leaves debugging out.
func (l *logWatch) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle notes a line.
func (l *logWatch) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && l.world.plan.diskFaults {
		l.world.faults.injected.surfaced++
	}
	if r.Message == refusedPartition {
		l.world.refused = l.world.nodes[0].life
	}
	l.world.note(r.Message)
	if l.world.trace.loud {
		r.Attrs(func(a slog.Attr) bool { fmt.Println("            ", a); return true })
	}
	return nil
}

// WithAttrs and WithGroup change nothing here.
func (l *logWatch) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logWatch) WithGroup(string) slog.Handler      { return l }
