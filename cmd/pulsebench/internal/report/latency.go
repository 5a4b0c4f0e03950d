package report

import (
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// hdrTicks is how many lines the percentile file has for each halving of the distance to 100 %.
const hdrTicks = 5

// Latency is the shape of a histogram of microseconds, in milliseconds.
type Latency struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	P9999 float64 `json:"p9999"`
	Max   float64 `json:"max"`
	Count int64   `json:"count"`
}

// LatencyOf is nil when nothing was measured.
func LatencyOf(h *hdrhistogram.Histogram) *Latency {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	at := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1000 }
	return &Latency{P50: at(50), P95: at(95), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: float64(h.Max()) / 1000, Count: h.TotalCount()}
}

// WriteHDR writes the percentiles in the text form that HdrHistogram's plotter reads, in milliseconds.
func WriteHDR(w io.Writer, h *hdrhistogram.Histogram) error {
	if _, err := h.PercentilesPrint(w, hdrTicks, 1000); err != nil {
		return fmt.Errorf("write the histogram: %w", err)
	}
	return nil
}
