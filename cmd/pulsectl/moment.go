package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// parseMoment reads a TIME: RFC 3339, a duration back from now such as -1h, or
// milliseconds since the Unix epoch. flag is what it was given for.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	if ago, back := strings.CutPrefix(text, "-"); back {
		if d, err := core.ParseDuration(ago); err == nil {
			return now.Add(-d), nil
		}
	}
	return time.Time{}, usagef("%s %q: give RFC 3339 (2026-01-31T12:00:00Z), a time back from now (-1h, -30m, -7d) or Unix milliseconds", flag, text)
}
