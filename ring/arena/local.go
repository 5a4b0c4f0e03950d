package arena

import "github.com/pulsemq/pulsemq/core"

// Local is a core.SlabSource whose slabs are got and released on one thread.
type Local struct{ space *space }

var (
	_ core.SlabSource = (*Local)(nil)
	_ core.SlabHome   = (*Local)(nil)
)

// NewLocal reserves an arena of budgetBytes, rounded down to whole huge pages.
func NewLocal(budgetBytes int64) (*Local, error) {
	l := &Local{}
	s, err := newSpace(budgetBytes, l)
	if err != nil {
		return nil, err
	}
	l.space = s
	return l, nil
}

// Get returns a slab of at least n bytes with one reference, or nil when the
// arena is exhausted or n is above core.SlabBytesMax.
func (l *Local) Get(n int) *core.Slab { return l.space.get(n) }

// Put takes a slab home. core.Slab calls it.
func (l *Local) Put(slab *core.Slab) {
	l.space.spoil(slab)
	l.space.put(l.space.pageOf(slab))
}

// Trim returns at most bytesMax of free memory to the kernel and says how much.
func (l *Local) Trim(bytesMax int64) int64 { return l.space.trim(bytesMax) }

// Gauges may be called from any thread.
func (l *Local) Gauges() Gauges { return l.space.gauges() }

// Close gives the address space back. Every slab must be at home.
func (l *Local) Close() error { return l.space.close() }

// Spoil has slabs overwritten when they come home, so that who still reads one is
// found out. It is called before the first Get.
func (l *Local) Spoil() { l.space.spoils = true }

// Abandon gives the address space back although slabs are out: what the end of a
// process does, for a simulated one.
func (l *Local) Abandon() error { return l.space.abandon() }
