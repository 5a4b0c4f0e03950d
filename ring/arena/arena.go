package arena

import (
	"math"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
)

// homecomingBatch bounds the slabs that one Get takes home, so that its time is
// bounded too. A Get that finds nothing takes all of them.
const homecomingBatch = 64

// Arena is a core.SlabSource for one thread, its owner, whose slabs are released
// on one other thread. Only Put belongs to the other thread.
type Arena struct {
	space *space
	// home brings back the page numbers of released slabs. It holds as many as
	// there can be slabs, so it is never full; numbers instead of pointers keep
	// it out of the garbage collector's sight.
	home  *ring.SPSC[uint32]
	batch [homecomingBatch]uint32
}

var (
	_ core.SlabSource = (*Arena)(nil)
	_ core.SlabHome   = (*Arena)(nil)
)

// New reserves an arena of budgetBytes, rounded down to whole huge pages.
func New(budgetBytes int64) (*Arena, error) {
	a := &Arena{}
	s, err := newSpace(budgetBytes, a)
	if err != nil {
		return nil, err
	}
	a.space = s
	a.home = ring.NewSPSC[uint32](len(s.blocks) * slabsPerBlockMax)
	return a, nil
}

// Get returns a slab of at least n bytes with one reference, or nil when the
// arena is exhausted or n is above core.SlabBytesMax. Owner only.
func (a *Arena) Get(n int) *core.Slab {
	a.collect(homecomingBatch)
	slab := a.space.get(n)
	if slab == nil && n <= core.SlabBytesMax && a.collect(math.MaxInt) > 0 {
		slab = a.space.get(n)
	}
	return slab
}

// Put sends a slab home. core.Slab calls it on the releasing thread.
func (a *Arena) Put(slab *core.Slab) {
	a.space.spoil(slab)
	core.Assert(a.home.Push(a.space.pageOf(slab)), "the way home has room for every slab")
}

// Discard takes back a slab that the owner got and never handed over. Owner only.
func (a *Arena) Discard(slab *core.Slab) {
	slab.Recall()
	a.space.put(a.space.pageOf(slab))
}

// Trim takes home what was released and returns at most bytesMax of free memory
// to the kernel. The owner calls it when it is idle; it says how much went back.
func (a *Arena) Trim(bytesMax int64) int64 {
	a.collect(math.MaxInt)
	return a.space.trim(bytesMax)
}

// collect takes home at least one and about limit slabs, or none if none wait.
func (a *Arena) collect(limit int) int {
	total := 0
	for total < limit {
		n := a.home.PopBatch(a.batch[:])
		for _, page := range a.batch[:n] {
			a.space.put(page)
		}
		total += n
		if n < len(a.batch) {
			break
		}
	}
	return total
}

// Gauges may be called from any thread.
func (a *Arena) Gauges() Gauges { return a.space.gauges() }

// Close gives the address space back. Every slab must be at home.
func (a *Arena) Close() error {
	a.collect(math.MaxInt)
	return a.space.close()
}

// Spoil has slabs overwritten when they come home, so that who still reads one is
// found out. It is called before the first Get.
func (a *Arena) Spoil() { a.space.spoils = true }

// Abandon gives the address space back although slabs are out: what the end of a
// process does, for a simulated one.
func (a *Arena) Abandon() error { return a.space.abandon() }
