package netio

import (
	"math/bits"

	"github.com/pulsemq/pulsemq/proto"
)

// pending is a request that has not been answered.
type pending struct {
	id       uint64
	bytes    uint32 // of its payload, taken from the window
	command  proto.Command
	used     bool
	received int64 // monotonic, when its header had arrived
}

// pendings holds the unanswered requests of one connection by their ids: a hash
// table with linear probing. A Go map would do, but it allocates now and then
// under steady insertion and removal, and costs more for an idle connection.
//
// Invariant: count <= len(slots)/2; len(slots) is 0 or a power of two.
type pendings struct {
	slots []pending
	count int
}

// pendingSlotsMin is the size of the first table.
const pendingSlotsMin = 8

// home is where an id wants to lie. Ids are usually consecutive, so the multiply
// only has to keep runs of one stride from meeting.
func (p *pendings) home(id uint64) int {
	return int(id * 0x9e3779b97f4a7c15 >> (64 - bits.TrailingZeros(uint(len(p.slots)))))
}

// find returns the entry of id, or nil.
func (p *pendings) find(id uint64) *pending {
	if p.count == 0 {
		return nil
	}
	mask := len(p.slots) - 1
	for i := p.home(id); p.slots[i].used; i = (i + 1) & mask {
		if p.slots[i].id == id {
			return &p.slots[i]
		}
	}
	return nil
}

// add stores a request whose id is not there yet.
func (p *pendings) add(entry pending) {
	if 2*(p.count+1) > len(p.slots) {
		p.grow()
	}
	p.place(entry)
	p.count++
}

func (p *pendings) place(entry pending) {
	entry.used = true
	mask := len(p.slots) - 1
	i := p.home(entry.id)
	for p.slots[i].used {
		i = (i + 1) & mask
	}
	p.slots[i] = entry
}

func (p *pendings) grow() {
	old := p.slots
	p.slots = make([]pending, max(pendingSlotsMin, 2*len(old)))
	for _, entry := range old {
		if entry.used {
			p.place(entry)
		}
	}
}

// pendingSlotsKeep is the size of a table that is kept without a request in it.
const pendingSlotsKeep = 64

// rest gives up the memory of a burst.
func (p *pendings) rest() {
	if p.count == 0 && len(p.slots) > pendingSlotsKeep {
		p.slots = nil
	}
}

// remove takes an entry out and closes the gap, so that no tombstones gather.
func (p *pendings) remove(id uint64) (pending, bool) {
	found := p.find(id)
	if found == nil {
		return pending{}, false
	}
	entry := *found
	mask := len(p.slots) - 1
	gap := p.home(id)
	for p.slots[gap].id != id {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; p.slots[i].used; i = (i + 1) & mask {
		// The entry at i may fill the gap unless its home lies behind the gap.
		if (i-p.home(p.slots[i].id))&mask >= (i-gap)&mask {
			p.slots[gap] = p.slots[i]
			gap = i
		}
	}
	p.slots[gap] = pending{}
	p.count--
	return entry, true
}
