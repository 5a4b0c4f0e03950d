package arena

import (
	"fmt"
	"os"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

func residentBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// Reserving costs no memory, use does, and Trim gives it back.
func TestTrimFreesResidentMemory(t *testing.T) {
	const blocks = 32
	l := newLocal(t, 512*blockBytes)
	atRest := residentBytes(t)
	if atRest > 256*blockBytes {
		t.Skipf("%d bytes are resident before anything was touched", atRest)
	}
	var slabs []*core.Slab
	for range blocks {
		s := l.Get(core.SlabBytesMax)
		for i := 0; i < len(s.Bytes); i += 4096 {
			s.Bytes[i] = 1
		}
		slabs = append(slabs, s)
	}
	inUse := residentBytes(t)
	if inUse-atRest < blocks*blockBytes*9/10 {
		t.Fatalf("resident %d -> %d after touching %d", atRest, inUse, blocks*blockBytes)
	}
	for _, s := range slabs {
		s.Release()
	}
	if got := l.Trim(blocks * blockBytes); got != blocks*blockBytes {
		t.Fatalf("Trim = %d, want %d", got, blocks*blockBytes)
	}
	if after := residentBytes(t); inUse-after < blocks*blockBytes*9/10 {
		t.Fatalf("resident %d -> %d after Trim", inUse, after)
	}
}
