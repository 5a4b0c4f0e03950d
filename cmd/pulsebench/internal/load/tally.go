package load

import (
	"maps"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/pulsemq/pulsemq/proto"
)

// Tally is what one connection has done. Records and Errors may be read while it works, the rest only afterwards.
type Tally struct {
	Records atomic.Int64 // acknowledged or read
	Errors  atomic.Int64 // requests refused

	Requests   int64 // answered well
	Bytes      int64 // of record batches
	Batches    int64 // read
	ByCode     map[proto.Code]int64
	Latency    *hdrhistogram.Histogram
	EndToEnd   *hdrhistogram.Histogram // only in sums of what was read, when it was measured
	Last       int64                   // on the run's clock: when the last good answer came
	Unsent     int64                   // requests that were due before the end and could not be sent
	Durability proto.Durability        // the lowest that an answer named
}

// NewTally makes an empty one.
func NewTally() *Tally {
	return &Tally{ByCode: make(map[proto.Code]int64), Latency: NewLatency(), Durability: proto.DurabilitySync}
}

// Refuse counts a refusal.
func (t *Tally) Refuse(code proto.Code) {
	t.Errors.Add(1)
	t.ByCode[code]++
}

// Merge adds up what several connections have done.
func Merge(tallies []*Tally) *Tally {
	sum := NewTally()
	for _, t := range tallies {
		sum.Records.Add(t.Records.Load())
		sum.Errors.Add(t.Errors.Load())
		sum.Requests += t.Requests
		sum.Bytes += t.Bytes
		sum.Batches += t.Batches
		sum.Unsent += t.Unsent
		sum.Last = max(sum.Last, t.Last)
		sum.Durability = min(sum.Durability, t.Durability)
		sum.Latency.Merge(t.Latency)
		for code, n := range maps.All(t.ByCode) {
			sum.ByCode[code] += n
		}
	}
	return sum
}
