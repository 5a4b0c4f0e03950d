package load

import "time"

// Allowance says when a reader that keeps to a rate may ask for more. How many records an answer holds is known only
// once it has come, so a request is due when those that were read, and those that the answers on their way are likely to
// hold, should have been read.
type Allowance struct {
	start int64   // on the run's clock
	rate  float64 // records per second; 0 flat out
}

// NewAllowance begins now.
func NewAllowance(now int64, rate float64) Allowance { return Allowance{start: now, rate: rate} }

// Due is when the next request is, with so many in flight. Flat out that is now.
func (a *Allowance) Due(now int64, t *Tally, inFlight int) int64 {
	if a.rate == 0 {
		return now
	}
	records := float64(t.Records.Load())
	if t.Requests > 0 {
		records += records / float64(t.Requests) * float64(inFlight)
	}
	return a.start + int64(records/a.rate*float64(time.Second))
}
