package main

import (
	"context"
	"fmt"
	"log/slog"
)

// logWatch is the nodes' log: a part of the trace, and where faults surface.
type logWatch struct{ world *world }

// Enabled leaves debugging out.
func (l *logWatch) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle notes a line.
func (l *logWatch) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && l.world.plan.diskFaults {
		l.world.faults.injected.surfaced++
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
