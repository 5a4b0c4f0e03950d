package ledger

// bits is a set of small numbers that grows with the largest one.
type bits struct{ words []uint64 }

// add puts n in; false when it was there.
func (b *bits) add(n uint64) bool {
	word, bit := n/64, uint64(1)<<(n%64)
	for word >= uint64(len(b.words)) {
		b.words = append(b.words, make([]uint64, max(16, len(b.words)))...)
	}
	if b.words[word]&bit != 0 {
		return false
	}
	b.words[word] |= bit
	return true
}

// remove takes n out; false when it was not there.
func (b *bits) remove(n uint64) bool {
	if !b.has(n) {
		return false
	}
	b.words[n/64] &^= 1 << (n % 64)
	return true
}

func (b *bits) has(n uint64) bool {
	return n/64 < uint64(len(b.words)) && b.words[n/64]&(1<<(n%64)) != 0
}
