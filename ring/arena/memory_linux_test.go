package arena

import (
	"fmt"
	"os"
	"strings"
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

// Slabs lie on huge pages where the kernel has them.
func TestSlabsLieOnHugePages(t *testing.T) {
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(enabled), "[never]") {
		t.Skip("this kernel has no transparent huge pages")
	}
	const blocks = 16
	l := newLocal(t, blocks*blockBytes)
	before := hugeBytes(t)
	for range blocks {
		l.Get(core.SlabBytesMax).Bytes[0] = 1
	}
	if got := hugeBytes(t) - before; got < blockBytes {
		t.Errorf("%d bytes of %d are on huge pages", got, blocks*blockBytes)
	}
}

// hugeBytes is how much of this process lies on huge pages.
func hugeBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "AnonHugePages:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
