package proto

// Murmur2 is the 32-bit MurmurHash2 with the seed that Kafka's clients use, so that a key goes to the same partition
// whichever client sends it.
func Murmur2(key []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(key))
	for len(key) >= 4 {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		key = key[4:]
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(key[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}

// PartitionForKey is the partition of a key in a topic of so many partitions, at least one. An empty key has a
// partition like any other; a null key has none: the producer chooses.
func PartitionForKey(key []byte, partitions uint32) uint32 {
	return (Murmur2(key) & 0x7fffffff) % partitions
}
