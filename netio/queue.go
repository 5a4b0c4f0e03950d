package netio

// queue is a first-in first-out list that keeps its memory: a ring that grows.
// Who owns one bounds it.
//
// Invariant: len(items) is 0 or a power of two; count <= len(items).
type queue[T any] struct {
	items []T
	first int
	count int
}

func (q *queue[T]) len() int { return q.count }

func (q *queue[T]) push(v T) {
	if q.count == len(q.items) {
		items := make([]T, max(8, 2*len(q.items)))
		for i := range q.count {
			items[i] = q.items[(q.first+i)&(len(q.items)-1)]
		}
		q.items, q.first = items, 0
	}
	q.items[(q.first+q.count)&(len(q.items)-1)] = v
	q.count++
}

// front is the oldest value; there must be one.
func (q *queue[T]) front() *T { return &q.items[q.first] }

// pop takes the oldest value; there must be one.
func (q *queue[T]) pop() T {
	var zero T
	v := q.items[q.first]
	q.items[q.first] = zero // the queue must not keep alive what it has handed over
	q.first = (q.first + 1) & (len(q.items) - 1)
	q.count--
	return v
}
