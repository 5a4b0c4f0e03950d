package arena

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/pulsemq/pulsemq/core"
)

// space is the budget: its mapping, its blocks and their lists. One thread uses it.
type space struct {
	mapping []byte // as the kernel gave it
	bytes   []byte // the aligned part that is carved
	base    uintptr
	home    core.SlabHome // what the headers name as their home
	spoils  bool          // slabs that come home are overwritten

	blocks  []block
	partial [classCount]int32 // first block of each class with slabs at home and out
	// Free blocks, as stacks. Those with resident memory are used first.
	freeTouched, freeUntouched []int32

	// Gauges. The owner writes them, metrics read them.
	inUse, touched atomic.Int64
}

// newSpace reserves budget bytes, rounded down to whole blocks.
func newSpace(budgetBytes int64, home core.SlabHome) (*space, error) {
	count := budgetBytes / blockBytes
	if count < 1 || count > 1<<30 {
		return nil, fmt.Errorf("arena of %d bytes: allowed are %d (one huge page) and more", budgetBytes, blockBytes)
	}
	// One block more than is used, to find an aligned start in it.
	mapping, err := reserve(int((count + 1) * blockBytes))
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of address space for an arena: %w", (count+1)*blockBytes, err)
	}
	skip := (blockBytes - uintptr(unsafe.Pointer(unsafe.SliceData(mapping)))%blockBytes) % blockBytes
	end := skip + uintptr(count*blockBytes)
	s := &space{
		mapping:       mapping,
		bytes:         mapping[skip:end:end],
		home:          home,
		blocks:        make([]block, count),
		freeTouched:   make([]int32, 0, count),
		freeUntouched: make([]int32, 0, count),
	}
	s.base = uintptr(unsafe.Pointer(unsafe.SliceData(s.bytes)))
	preferHuge(s.bytes)
	for class := range s.partial {
		s.partial[class] = blockNone
	}
	for i := count - 1; i >= 0; i-- { // low addresses are used first
		s.blocks[i].class = classFree
		s.freeUntouched = append(s.freeUntouched, int32(i))
	}
	return s, nil
}

// get gives out a slab of at least n bytes, or nil.
func (s *space) get(n int) *core.Slab {
	if n > core.SlabBytesMax {
		return nil
	}
	class := classOf(n)
	number := s.partial[class]
	if number == blockNone {
		if number = s.popFree(); number == blockNone {
			return nil
		}
		if !s.blocks[number].touched {
			s.touched.Add(blockBytes)
		}
		s.blocks[number].carve(class, s.blockBytes(number), s.home)
		s.link(number)
	}
	b := &s.blocks[number]
	slab := b.take()
	if b.full() {
		s.unlink(number)
	}
	s.inUse.Add(int64(classBytes(class)))
	return slab.Issue()
}

// put takes home the slab that starts at the given page.
func (s *space) put(page uint32) {
	number := int32(page / slabsPerBlockMax)
	b := &s.blocks[number]
	core.Assert(b.class != classFree, "a slab comes home to a carved block")
	wasFull := b.full()
	b.give(int(page%slabsPerBlockMax) >> b.class)
	s.inUse.Add(-int64(classBytes(int(b.class))))
	switch {
	case b.used == 0:
		if !wasFull {
			s.unlink(number)
		}
		b.class = classFree
		s.freeTouched = append(s.freeTouched, number)
	case wasFull:
		s.link(number)
	}
}

// pageOf names a slab by the number of its first page.
func (s *space) pageOf(slab *core.Slab) uint32 {
	offset := uintptr(unsafe.Pointer(unsafe.SliceData(slab.Bytes))) - s.base
	core.Assert(offset < uintptr(len(s.bytes)), "a slab comes home to the arena it is from")
	return uint32(offset / core.SlabBytesMin)
}

// trim returns free memory to the kernel, at most bytesMax of it.
func (s *space) trim(bytesMax int64) int64 {
	var released int64
	for len(s.freeTouched) > 0 && released+blockBytes <= bytesMax {
		last := len(s.freeTouched) - 1
		number := s.freeTouched[last]
		if !release(s.blockBytes(number)) {
			break // the kernel refuses; the block stays counted as touched
		}
		s.freeTouched = s.freeTouched[:last]
		s.blocks[number].touched = false
		s.freeUntouched = append(s.freeUntouched, number)
		released += blockBytes
	}
	s.touched.Add(-released)
	return released
}

func (s *space) close() error {
	core.Assert(s.inUse.Load() == 0, "an arena is closed when every slab is at home")
	return s.abandon()
}

// abandon gives the address space back whoever still uses it.
func (s *space) abandon() error { return unreserve(s.mapping) }

// spoilByte fills slabs that came home to an arena that spoils them.
const spoilByte = 0xdb

// spoil overwrites a slab on its way home.
func (s *space) spoil(slab *core.Slab) {
	if !s.spoils {
		return
	}
	slab.Bytes[0] = spoilByte
	for filled := 1; filled < len(slab.Bytes); filled *= 2 {
		copy(slab.Bytes[filled:], slab.Bytes[:filled])
	}
}

func (s *space) blockBytes(number int32) []byte {
	return s.bytes[int(number)*blockBytes : (int(number)+1)*blockBytes : (int(number)+1)*blockBytes]
}

func (s *space) popFree() int32 {
	for _, stack := range []*[]int32{&s.freeTouched, &s.freeUntouched} {
		if last := len(*stack) - 1; last >= 0 {
			number := (*stack)[last]
			*stack = (*stack)[:last]
			return number
		}
	}
	return blockNone
}

// link puts a block at the head of its class's partial list.
func (s *space) link(number int32) {
	b := &s.blocks[number]
	first := s.partial[b.class]
	b.prev, b.next = blockNone, first
	if first != blockNone {
		s.blocks[first].prev = number
	}
	s.partial[b.class] = number
}

func (s *space) unlink(number int32) {
	b := &s.blocks[number]
	if b.prev != blockNone {
		s.blocks[b.prev].next = b.next
	} else {
		s.partial[b.class] = b.next
	}
	if b.next != blockNone {
		s.blocks[b.next].prev = b.prev
	}
}
