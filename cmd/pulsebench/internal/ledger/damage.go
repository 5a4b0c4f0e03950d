package ledger

import (
	"fmt"
	"sync"
)

// damageListMax bounds how many places are remembered.
const damageListMax = 16

// damage is what a log holds that is not what was sent, and where: whoever looks into it has to know the place.
type damage struct {
	mu      sync.Mutex
	damaged uint64 // batches
	holes   uint64 // offsets
	again   uint64 // offsets that came once more
	places  []string
}

func (d *damage) add(at Place, problem string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.damaged++
	d.note("partition %d, offset %d: %s", at.Partition, at.BaseOffset, problem)
}

func (d *damage) hole(at Place, offsets int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holes += uint64(offsets)
	d.note("partition %d: no record at offsets %d to %d", at.Partition, at.BaseOffset-offsets, at.BaseOffset-1)
}

func (d *damage) repeat(at Place, offsets int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.again += uint64(offsets)
	d.note("partition %d: offsets %d to %d once more", at.Partition, at.BaseOffset, at.BaseOffset+offsets-1)
}

func (d *damage) note(format string, args ...any) {
	if len(d.places) < damageListMax {
		d.places = append(d.places, fmt.Sprintf(format, args...))
	}
}

func (d *damage) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.places...)
}

func (d *damage) verdict() Verdict {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Verdict{Damaged: d.damaged, Holes: d.holes, Duplicated: d.again}
}
