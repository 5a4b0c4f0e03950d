package core

// queueKeepMax is how many places Rest leaves to an empty queue.
const queueKeepMax = 64

// Queue is a first-in first-out list that keeps its memory: a ring that grows to
// the most it has held since the last Rest. Who owns one bounds it. The zero value
// is empty.
//
// Invariant: len(items) is 0 or a power of two; count <= len(items).
type Queue[T any] struct {
	items []T
	first int
	count int
}

// Len is the number of items.
func (q *Queue[T]) Len() int { return q.count }

// Push adds an item behind all others.
func (q *Queue[T]) Push(item T) {
	if q.count == len(q.items) {
		larger := make([]T, max(8, 2*len(q.items)))
		for i := range q.count {
			larger[i] = *q.At(i)
		}
		q.items, q.first = larger, 0
	}
	q.items[(q.first+q.count)&(len(q.items)-1)] = item
	q.count++
}

// At is the item i places behind the oldest; there must be one. The pointer is
// good until the next push or pop.
func (q *Queue[T]) At(i int) *T { return &q.items[(q.first+i)&(len(q.items)-1)] }

// Front is the oldest item; there must be one.
func (q *Queue[T]) Front() *T { return &q.items[q.first] }

// Pop takes the oldest item; there must be one.
func (q *Queue[T]) Pop() T {
	var zero T
	item := q.items[q.first]
	q.items[q.first] = zero // the queue must not keep alive what it has handed over
	q.first = (q.first + 1) & (len(q.items) - 1)
	q.count--
	return item
}

// PopBack takes the newest item; there must be one.
func (q *Queue[T]) PopBack() T {
	var zero T
	slot := q.At(q.count - 1)
	item := *slot
	*slot = zero
	q.count--
	return item
}

// Rest gives up the memory of a burst, when the queue is empty: one that lives as long
// as a connection must not keep for hours what it needed for a moment.
func (q *Queue[T]) Rest() {
	if q.count == 0 && len(q.items) > queueKeepMax {
		q.items, q.first = nil, 0
	}
}
