package proto

import "testing"

// What Kafka's own tests expect of its murmur2, as signed numbers.
func TestMurmur2(t *testing.T) {
	for _, c := range []struct {
		key  string
		want int32
	}{
		{"21", -973932308},
		{"foobar", -790332482},
		{"a-little-bit-long-string", -985981536},
		{"a-little-bit-longer-string", -1486304829},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
		{"abc", 479470107},
	} {
		if got := int32(Murmur2([]byte(c.key))); got != c.want {
			t.Errorf("Murmur2(%q) = %d, want %d", c.key, got, c.want)
		}
	}
}

func TestPartitionForKey(t *testing.T) {
	if got := PartitionForKey([]byte("abc"), 1000); got != 107 {
		t.Errorf(`"abc" goes to %d of 1000, want 107`, got)
	}
	// The sign bit is dropped, not negated.
	if got, want := PartitionForKey([]byte("21"), 7), uint32((-973932308&0x7fffffff)%7); got != want {
		t.Errorf(`"21" goes to %d of 7, want %d`, got, want)
	}
}
