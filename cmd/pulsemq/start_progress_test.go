package main

import (
	"slices"
	"testing"
	"time"
)

// A start that is long says where the time went: the stages take turns, and each has its own time.
func TestStagesHaveTheirTimes(t *testing.T) {
	at := time.Unix(1000, 0)
	times := stageTimes{took: map[string]time.Duration{}}
	for _, enter := range []struct {
		stage string
		after time.Duration
	}{{"journal", 0}, {"journal", time.Second}, {"metadata", time.Second}, {"partitions", 3 * time.Second}, {"ready", 500 * time.Millisecond}} {
		at = at.Add(enter.after)
		times.enter(enter.stage, at)
	}
	want := []any{"journal_ms", int64(2000), "metadata_ms", int64(3000), "partitions_ms", int64(500)}
	if got := times.fields(); !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
}
