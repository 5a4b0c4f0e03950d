package ledger

import "sync"

// Deliveries is an account of offsets that come in any order, as those of a queue group do. It is safe for use by many
// goroutines.
type Deliveries struct {
	from  []int64 // by partition
	parts []deliveredPart
}

type deliveredPart struct {
	mu   sync.Mutex
	seen bits // from from on
}

// NewDeliveries makes an account of what lies from some offset of each partition on.
func NewDeliveries(from []int64) *Deliveries {
	return &Deliveries{from: from, parts: make([]deliveredPart, len(from))}
}

// Knows reports whether a place is one that can be delivered.
func (d *Deliveries) Knows(at Place) bool {
	return int(at.Partition) < len(d.parts) && at.BaseOffset >= d.from[at.Partition]
}

// Deliver writes an offset down; false when it was delivered before. The place is one that is known.
func (d *Deliveries) Deliver(at Place) bool {
	p := &d.parts[at.Partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.add(uint64(at.BaseOffset - d.from[at.Partition]))
}

// Holes calls hole with every range up to some offset of each partition that was not delivered, and the place behind it.
func (d *Deliveries) Holes(to []int64, hole func(behind Place, offsets int64)) {
	for i := range d.parts {
		p := &d.parts[i]
		p.mu.Lock()
		missing := int64(0)
		for offset := d.from[i]; offset <= to[i]; offset++ {
			if offset < to[i] && !p.seen.has(uint64(offset-d.from[i])) {
				missing++
			} else if missing > 0 {
				hole(Place{Partition: uint32(i), BaseOffset: offset}, missing)
				missing = 0
			}
		}
		p.mu.Unlock()
	}
}
