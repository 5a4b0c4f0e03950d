// Package load puts load on a broker over raw connections and measures what comes back.
//
//	topic.go      what a run sends to: the partitions, who leads them, where their logs end
//	schedule.go   when requests are due: at a rate, or at once
//	sender.go     one connection that sends PRODUCE, many at a time
//	pacer.go      wakes senders when something is due
//	fetcher.go    one connection that reads partitions with FETCH
//	reader.go     what a fetcher's batches mean: marks for the ledger, times for the histogram
//	produce.go    a run of senders; readback.go the verification behind it
//	consume.go    a run of fetchers; endtoend.go both at once
//
// Latency is measured from the time a request was due, not from the time it was sent: when the broker stalls for a
// second, a schedule of a thousand requests a second has a thousand requests that waited up to a second, and all of
// them count, although only as many as may be in flight were sent. Flat out a request is due when there is room for it.
//
// A sender has one lock and at most two goroutines that take it: the one that reads answers sends what they make room
// for, because handing that to another goroutine costs more than the sending; at a rate a pacer sends what has become
// due meanwhile. Neither allocates for a request.
package load
