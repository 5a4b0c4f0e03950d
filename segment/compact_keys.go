package segment

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/pulsemq/pulsemq/core"
)

// keyHash names a key in compaction. Two keys with one hash would cost a record,
// and clients choose keys, so it is cut from a cryptographic hash.
type keyHash [16]byte

func hashKey(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash(sum[:16])
}

// keySlotBytes is the memory of one slot of a keyTable.
const keySlotBytes = 16 + 8

// keyTable maps keys to the offset of their newest record, with open addressing
// in two flat slices: no pointers for the collector to follow.
//
// Invariant: at most three quarters of the slots are used; len is a power of two.
type keyTable struct {
	hashes []keyHash
	next   []core.Offset // the newest record's offset plus one; 0 is a free slot
	used   int
	max    int // slots may not pass this
}

const keySlotsMin = 1 << 10

func newKeyTable(bytesMax int64) *keyTable {
	slots := keySlotsMin
	for int64(2*slots)*keySlotBytes <= bytesMax {
		slots *= 2
	}
	return &keyTable{max: slots}
}

// add takes note of a record, or returns false when the table is full. With grow
// it becomes larger than its budget instead.
func (t *keyTable) add(h keyHash, offset core.Offset, grow bool) bool {
	if 4*(t.used+1) > 3*len(t.hashes) {
		slots := max(2*len(t.hashes), keySlotsMin)
		if slots > t.max && !grow {
			// The key may be in the table already.
			if i, ok := t.find(h); ok {
				t.next[i] = max(t.next[i], offset+1)
				return true
			}
			return false
		}
		t.resize(slots)
	}
	i, ok := t.find(h)
	if !ok {
		t.hashes[i] = h
		t.used++
	}
	t.next[i] = max(t.next[i], offset+1)
	return true
}

// newest is the offset of the key's newest record; false when it is not in the table.
func (t *keyTable) newest(h keyHash) (core.Offset, bool) {
	if t.used == 0 {
		return 0, false
	}
	i, ok := t.find(h)
	if !ok {
		return 0, false
	}
	return t.next[i] - 1, true
}

// find returns the key's slot, or the free one where it belongs.
func (t *keyTable) find(h keyHash) (int, bool) {
	if len(t.hashes) == 0 {
		return 0, false
	}
	mask := len(t.hashes) - 1
	for i := int(binary.LittleEndian.Uint64(h[:])) & mask; ; i = (i + 1) & mask {
		if t.next[i] == 0 {
			return i, false
		}
		if t.hashes[i] == h {
			return i, true
		}
	}
}

func (t *keyTable) resize(slots int) {
	hashes, next := t.hashes, t.next
	t.hashes, t.next = make([]keyHash, slots), make([]core.Offset, slots)
	for i, n := range next {
		if n != 0 {
			at, _ := t.find(hashes[i])
			t.hashes[at], t.next[at] = hashes[i], n
		}
	}
}
