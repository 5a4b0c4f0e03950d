package core

// shrinkLeast is below which nobody minds what a list has held once.
const shrinkLeast = 1024

// ShrinkMap gives back the memory of a map that holds little of what it once held: a map keeps
// room for the most that was ever in it. It is called behind each delete; peak is the caller's,
// for this map. What it copies is a part of what was deleted since the last copy.
func ShrinkMap[K comparable, V any](m map[K]V, peak *int) map[K]V {
	*peak = max(*peak, len(m)+1) // there was one more before the delete
	if *peak < shrinkLeast || len(m) > *peak/4 {
		return m
	}
	smaller := make(map[K]V, len(m))
	for k, v := range m {
		smaller[k] = v
	}
	*peak = len(m)
	return smaller
}

// ShrinkSlice does the same for a slice.
func ShrinkSlice[T any](s []T) []T {
	if cap(s) < shrinkLeast || len(s) > cap(s)/4 {
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}
