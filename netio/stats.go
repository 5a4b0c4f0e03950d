package netio

import (
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pulsemq/pulsemq/proto"
)

// Stats are the counters of one reactor. Its thread alone changes them; others
// see copies.
type Stats struct {
	Connections       int64
	ConnectionsOpened uint64
	ConnectionsClosed uint64
	Handshakes        uint64
	Producers         int64 // connections that have produced
	Consumers         int64 // connections that have fetched or subscribed
	Subscriptions     int64

	BytesReceived      uint64
	BytesSent          uint64
	FramesReceived     uint64
	FramesSent         uint64
	BatchesReceived    uint64
	BatchBytesReceived uint64
	RecordsReceived    uint64
	BatchBytesSent     uint64
	Duplicates         uint64
	SlabsRefused       uint64
	WritesFailed       uint64
	WindowBytesGranted int64

	// Failures are the errors sent, by code; those above the table are counted as INTERNAL.
	Failures [failureCodes]uint64

	// Latencies are from the arrival of a request's header to its answer.
	Produce, Fetch, Other *hdrhistogram.Histogram
}

// failureCodes is above the highest code there is.
const failureCodes = 128

// Histograms count nanoseconds up to a minute with two significant digits.
func newLatency() *hdrhistogram.Histogram {
	return hdrhistogram.New(latencyMin, latencyMax, 2)
}

const (
	latencyMin = int64(1e3)
	latencyMax = int64(60e9)
)

func (s *Stats) init() {
	s.Produce, s.Fetch, s.Other = newLatency(), newLatency(), newLatency()
}

func (s *Stats) fail(code proto.Code) {
	if int(code) >= failureCodes {
		code = proto.CodeInternal
	}
	s.Failures[code]++
}

// answered takes the time of one request.
func (s *Stats) answered(command proto.Command, nanoseconds int64) {
	h := s.Other
	switch command {
	case proto.CommandProduce:
		h = s.Produce
	case proto.CommandFetch:
		h = s.Fetch
	}
	// A value out of the histogram's range is counted at its end.
	_ = h.RecordValue(min(max(nanoseconds, latencyMin), latencyMax))
}

// add adds another reactor's counters.
func (s *Stats) add(o *Stats) {
	s.Connections += o.Connections
	s.ConnectionsOpened += o.ConnectionsOpened
	s.ConnectionsClosed += o.ConnectionsClosed
	s.Handshakes += o.Handshakes
	s.Producers += o.Producers
	s.Consumers += o.Consumers
	s.Subscriptions += o.Subscriptions
	s.BytesReceived += o.BytesReceived
	s.BytesSent += o.BytesSent
	s.FramesReceived += o.FramesReceived
	s.FramesSent += o.FramesSent
	s.BatchesReceived += o.BatchesReceived
	s.BatchBytesReceived += o.BatchBytesReceived
	s.RecordsReceived += o.RecordsReceived
	s.BatchBytesSent += o.BatchBytesSent
	s.Duplicates += o.Duplicates
	s.SlabsRefused += o.SlabsRefused
	s.WritesFailed += o.WritesFailed
	s.WindowBytesGranted += o.WindowBytesGranted
	for i, n := range o.Failures {
		s.Failures[i] += n
	}
}

// published hands copies of Stats to other threads without a lock: who wants one
// says so, and the owner leaves it at the end of its next turn.
type published struct {
	wanted atomic.Bool
	newest atomic.Pointer[Stats]
}

// publish leaves a copy when somebody wants one.
func (r *Reactor) publish() {
	if !r.page.wanted.Load() {
		return
	}
	copied := r.stats
	copied.WindowBytesGranted = r.windows.granted
	copied.Produce = hdrhistogram.Import(r.stats.Produce.Export())
	copied.Fetch = hdrhistogram.Import(r.stats.Fetch.Export())
	copied.Other = hdrhistogram.Import(r.stats.Other.Export())
	r.page.newest.Store(&copied)
	r.page.wanted.Store(false)
}

// askStats wants a copy and statsFresh says whether it is there. Any thread may
// call them.
func (r *Reactor) askStats()        { r.page.wanted.Store(true) }
func (r *Reactor) statsFresh() bool { return !r.page.wanted.Load() }

// Stats returns the newest copy, nil before the first. Any thread may call it.
func (r *Reactor) Stats() *Stats { return r.page.newest.Load() }
