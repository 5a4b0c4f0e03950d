package load

import "sync/atomic"

// Budget is how many requests the senders of a run may still make together. A nil budget has no end.
type Budget struct{ left atomic.Int64 }

// NewBudget makes a budget for as many requests.
func NewBudget(requests int64) *Budget {
	b := new(Budget)
	b.left.Store(requests)
	return b
}

// Take uses one up; false when there is none left.
func (b *Budget) Take() bool {
	if b == nil {
		return true
	}
	if b.left.Add(-1) >= 0 {
		return true
	}
	b.left.Add(1)
	return false
}

// Return gives one back that was used up in vain: a refused request is made again, under another counter.
func (b *Budget) Return() {
	if b != nil {
		b.left.Add(1)
	}
}
