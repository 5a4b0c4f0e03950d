package core

import "unsafe"

// Slab is a block of payload memory, 4 KiB aligned and outside the Go heap in
// the broker. It travels from a reactor to a shard and home again. References
// are counted by the thread that has it, the reactor's until it is handed over
// and the shard's from then on, so the count needs no atomics.
type Slab struct {
	// Bytes is the whole block; its length is the size class.
	Bytes []byte
	home  SlabHome
	refs  int32
}

// SlabHome takes back slabs whose last reference was released.
type SlabHome interface {
	Put(*Slab)
}

// SlabSource gives slabs to one thread.
type SlabSource interface {
	// Get returns a slab of at least n bytes with one reference, or nil when the
	// source is exhausted or n is above SlabBytesMax.
	Get(n int) *Slab
}

// NewSlab makes the header of a slab; sources call it once for each block they carve.
func NewSlab(bytes []byte, home SlabHome) *Slab { return &Slab{Bytes: bytes, home: home} }

// NewSlabs makes the headers of all slabs of the given size in a block, side by
// side in one allocation.
func NewSlabs(block []byte, size int, home SlabHome) []Slab {
	Assert(size > 0 && len(block)%size == 0, "a block is carved without a rest")
	slabs := make([]Slab, len(block)/size)
	for i := range slabs {
		slabs[i] = Slab{Bytes: block[i*size : (i+1)*size : (i+1)*size], home: home}
	}
	return slabs
}

// Issue gives a slab that lies at home its first reference.
func (s *Slab) Issue() *Slab {
	Assert(s.refs == 0, "a slab is issued from its home only")
	s.refs = 1
	return s
}

// Retain adds a reference.
func (s *Slab) Retain() {
	Assert(s.refs > 0, "a slab at home cannot be retained")
	s.refs++
}

// Release gives a reference back; the last one sends the slab home.
func (s *Slab) Release() {
	Assert(s.refs > 0, "a slab is released once per reference")
	s.refs--
	if s.refs == 0 {
		s.home.Put(s)
	}
}

// Recall takes the only reference back without sending the slab home, for a source
// whose own thread returns a slab that it never handed to another.
func (s *Slab) Recall() {
	Assert(s.refs == 1, "a recalled slab has no other user")
	s.refs = 0
}

// HeapSlabs is a SlabSource on the Go heap, for tools and tests. What comes home is
// overwritten, so that a test finds out who still reads it.
type HeapSlabs struct{}

// heapSlabPoison fills slabs of HeapSlabs that came home.
const heapSlabPoison = 0xdb

// Get returns a fresh aligned block of the smallest size class that holds n bytes.
func (HeapSlabs) Get(n int) *Slab {
	if n > SlabBytesMax {
		return nil
	}
	size := SlabClassBytes(n)
	raw := make([]byte, size+DiskAlignment)
	skip := (DiskAlignment - int(uintptr(unsafe.Pointer(&raw[0]))%DiskAlignment)) % DiskAlignment
	return NewSlab(raw[skip:skip+size:skip+size], HeapSlabs{}).Issue()
}

// Put overwrites the slab and lets the garbage collector have it.
func (HeapSlabs) Put(s *Slab) {
	b := s.Bytes
	b[0] = heapSlabPoison
	for filled := 1; filled < len(b); filled *= 2 {
		copy(b[filled:], b[:filled])
	}
}

// SlabClassBytes is the size class that holds n bytes: a power of two from
// SlabBytesMin to SlabBytesMax.
func SlabClassBytes(n int) int {
	size := SlabBytesMin
	for size < n {
		size <<= 1
	}
	return size
}
