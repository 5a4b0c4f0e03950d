package arena

import (
	"math/bits"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// blockBytes is the size of a huge page.
	blockBytes = 2 << 20
	// slabsPerBlockMax is the number of the smallest slabs in a block.
	slabsPerBlockMax = blockBytes / core.SlabBytesMin
	// classFree marks a block that belongs to no class.
	classFree = -1
	// blockNone ends a list of blocks.
	blockNone = -1
)

// classCount is the number of size classes: the powers of two from SlabBytesMin
// to SlabBytesMax.
const classCount = 10

// The classes fill a block exactly, from 512 small slabs to one that is the block.
const (
	_ = uint(core.SlabBytesMin<<(classCount-1) - core.SlabBytesMax)
	_ = uint(core.SlabBytesMax - core.SlabBytesMin<<(classCount-1))
	_ = uint(blockBytes - core.SlabBytesMax)
)

// classOf is the class of the smallest slab that holds n bytes.
func classOf(n int) int {
	return bits.Len(uint(core.SlabClassBytes(n)/core.SlabBytesMin)) - 1
}

func classBytes(class int) int { return core.SlabBytesMin << class }

// block is one huge page.
//
// Invariants: a bit of free is set for each slab of the block's class at home;
// used is the number of the others; the block is in its class's list of partial
// blocks exactly when 0 < used < slabs per block, and in a list of free blocks
// exactly when its class is classFree.
type block struct {
	class      int8
	touched    bool // its memory may be resident
	used       int32
	next, prev int32
	free       [slabsPerBlockMax / 64]uint64

	// slabs holds the headers of each class this block has been carved for. They
	// are kept for the next time, so that steady work allocates nothing.
	slabs [classCount][]core.Slab
}

// carve makes a free block a block of a class with all slabs at home.
func (b *block) carve(class int, bytes []byte, home core.SlabHome) {
	if b.slabs[class] == nil {
		b.slabs[class] = core.NewSlabs(bytes, classBytes(class), home)
	}
	b.class = int8(class)
	b.touched = true
	b.used = 0
	count := len(b.slabs[class])
	for i := range b.free {
		switch {
		case count >= 64:
			b.free[i] = ^uint64(0)
			count -= 64
		default:
			b.free[i] = 1<<count - 1
			count = 0
		}
	}
}

// take gives out the first slab at home; there must be one.
func (b *block) take() *core.Slab {
	for i, word := range b.free {
		if word != 0 {
			bit := bits.TrailingZeros64(word)
			b.free[i] &^= 1 << bit
			b.used++
			return &b.slabs[b.class][i*64+bit]
		}
	}
	panic("assertion failed: a block in the partial list has a free slab")
}

// give takes a slab home.
func (b *block) give(index int) {
	mask := uint64(1) << (index % 64)
	core.Assert(b.free[index/64]&mask == 0, "a slab comes home once")
	b.free[index/64] |= mask
	b.used--
}

func (b *block) full() bool { return int(b.used) == len(b.slabs[b.class]) }
