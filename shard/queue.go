package shard

// queue is a first-in first-out ring that grows to the most it has ever held.
// Its users bound it.
type queue[T any] struct {
	items []T // length is a power of two, or 0
	head  int
	count int
}

func (q *queue[T]) len() int { return q.count }

func (q *queue[T]) push(item T) {
	if q.count == len(q.items) {
		larger := make([]T, max(8, 2*len(q.items)))
		for i := range q.count {
			larger[i] = q.items[(q.head+i)&(len(q.items)-1)]
		}
		q.items, q.head = larger, 0
	}
	q.items[(q.head+q.count)&(len(q.items)-1)] = item
	q.count++
}

// front is the oldest item; the queue must not be empty. The pointer is good
// until the next push or pop.
func (q *queue[T]) front() *T { return &q.items[q.head] }

func (q *queue[T]) pop() T {
	item := q.items[q.head]
	var zero T
	q.items[q.head] = zero // what has been taken must not be kept alive
	q.head = (q.head + 1) & (len(q.items) - 1)
	q.count--
	return item
}

// at is the item i places behind the oldest.
func (q *queue[T]) at(i int) *T { return &q.items[(q.head+i)&(len(q.items)-1)] }

// popBack takes the newest item.
func (q *queue[T]) popBack() T {
	slot := q.at(q.count - 1)
	item := *slot
	var zero T
	*slot = zero
	q.count--
	return item
}
