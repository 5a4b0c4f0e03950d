package load

import (
	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// latencyMax is the largest time that is told apart, in microseconds: ten minutes. Longer ones count as this.
	latencyMax = 600_000_000

	// latencyDigits keeps an error of at most a thousandth.
	latencyDigits = 3
)

// NewLatency makes a histogram of microseconds.
func NewLatency() *hdrhistogram.Histogram { return hdrhistogram.New(1, latencyMax, latencyDigits) }

// Record adds a time in nanoseconds.
func Record(h *hdrhistogram.Histogram, nanoseconds int64) {
	// The bounds are kept here, so there is nothing left that RecordValue could refuse.
	_ = h.RecordValue(min(max(nanoseconds/1000, 1), latencyMax))
}
