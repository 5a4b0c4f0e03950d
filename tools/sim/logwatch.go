package main

import (
	"context"
	"fmt"
	"log/slog"
)

// logWatch is the nodes' log: a part of the trace, and where faults surface.
type logWatch struct {
	world  *world
	levels [3]int // info, warn, error
}

// Enabled leaves debugging out.
func (l *logWatch) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle notes a line.
func (l *logWatch) Handle(_ context.Context, r slog.Record) error {
	switch {
	case r.Level >= slog.LevelError:
		l.levels[2]++
	case r.Level >= slog.LevelWarn:
		l.levels[1]++
	default:
		l.levels[0]++
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
