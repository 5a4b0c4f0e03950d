package core

import (
	"fmt"
	"strings"
	"time"
)

// BackoffStepsMax bounds the steps of a back-off: doubling from a second, it is more than nine hours.
const BackoffStepsMax = 16

// Backoff is how long to wait before another attempt, by the attempts there were.
// The last step that was given fills the rest, so that two equal lists are equal values.
type Backoff [BackoffStepsMax]time.Duration

// After is the wait after so many attempts, 1 at first.
func (b *Backoff) After(attempts int) time.Duration {
	return b[min(max(attempts, 1), BackoffStepsMax)-1]
}

// String writes the steps up to the one that repeats.
func (b Backoff) String() string {
	last := BackoffStepsMax - 1
	for last > 0 && b[last-1] == b[last] {
		last--
	}
	steps := make([]string, last+1)
	for i := range steps {
		steps[i] = FormatDuration(b[i])
	}
	return strings.Join(steps, ",")
}

// parseBackoff reads what String writes; duration reads one step.
func parseBackoff(text string, duration func(string) (time.Duration, error)) (b Backoff, err error) {
	steps := strings.Split(text, ",")
	if len(steps) > BackoffStepsMax {
		return b, fmt.Errorf("%d durations", len(steps))
	}
	for i := range b {
		if i >= len(steps) {
			b[i] = b[i-1]
			continue
		}
		if b[i], err = duration(strings.TrimSpace(steps[i])); err != nil {
			return b, err
		}
	}
	return b, nil
}
