package netio

import "runtime/metrics"

// heapObjectsSample is the runtime's name of it.
const heapObjectsSample = "/gc/heap/allocs:objects"

// heapObjects is how many objects the process has put on the Go heap so far. The paths of PRODUCE and FETCH put none
// there: when this grows with the number of requests, one of them has begun to.
func heapObjects() float64 {
	sample := [1]metrics.Sample{{Name: heapObjectsSample}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return float64(sample[0].Value.Uint64())
}
