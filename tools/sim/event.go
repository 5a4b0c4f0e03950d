package main

// event is something that happens at a time.
type event struct {
	at    int64
	order uint64 // events of one time happen in the order in which they were made
	do    func()
}

// agenda is the events to come: a heap by time.
type agenda struct {
	heap []event
	made uint64
}

func (a *agenda) before(i, j int) bool {
	return a.heap[i].at < a.heap[j].at || a.heap[i].at == a.heap[j].at && a.heap[i].order < a.heap[j].order
}

func (a *agenda) add(at int64, do func()) {
	a.made++
	a.heap = append(a.heap, event{at, a.made, do})
	for i := len(a.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a.before(i, parent) {
			break
		}
		a.heap[i], a.heap[parent] = a.heap[parent], a.heap[i]
		i = parent
	}
}

// next takes the earliest event; there must be one.
func (a *agenda) next() event {
	first, last := a.heap[0], len(a.heap)-1
	a.heap[0] = a.heap[last]
	a.heap[last] = event{}
	a.heap = a.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if a.before(child, least) {
				least = child
			}
		}
		if least == i {
			return first
		}
		a.heap[i], a.heap[least] = a.heap[least], a.heap[i]
		i = least
	}
}
