package main

import (
	"io"
	"log/slog"
)

// newLogger writes one JSON object per line. Its encoder escapes what could break
// a line, so foreign names and texts may be attributes but never the message.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
