package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// poisonSlabs overwrites a slab when it comes home, as its next user would.
type poisonSlabs struct{}

func (p poisonSlabs) Get(n int) *core.Slab {
	slab := core.HeapSlabs{}.Get(n)
	if slab == nil {
		return nil
	}
	return core.NewSlab(slab.Bytes, p).Issue()
}

func (p poisonSlabs) Put(slab *core.Slab) {
	for i := range slab.Bytes {
		slab.Bytes[i] = 0xdd
	}
}

// A read from disk that copies a small batch and then hands out a large one where
// it lies keeps the memory that the large one lies in.
func TestDiskReadKeepsWhatItHandsOut(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = poisonSlabs{} })
	o := r.serve(1)[0]
	for range 3 {
		o.append(1, 100)
		r.turn()
		o.append(1, 20<<10)
		r.turn()
	}
	r.settle()
	r.store.requestFlush(o.log, o.log.index)
	r.settle()
	for o.log.chunks.len() > 0 {
		if c := o.log.chunks.at(0); c.state == chunkSealed {
			r.store.dropFirstChunk(o.log, c)
			continue
		}
		t.Fatal("a chunk is not in the segment")
	}
	o.check(0)
	if r.store.Stats().ReadsDisk == 0 {
		t.Fatal("nothing was read from the disk")
	}
}
