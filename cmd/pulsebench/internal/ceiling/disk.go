package ceiling

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// sectorBytes is what sizes and places of direct I/O are multiples of; so are the broker's.
const sectorBytes = 4096

// Align rounds a size up to what direct I/O takes.
func Align(bytes int) int { return (bytes + sectorBytes - 1) / sectorBytes * sectorBytes }

// Disk says what is measured of a disk.
type Disk struct {
	Folder    string
	FileBytes int64 // of the file that is written round and round; it is written once before, as the broker's journal is
	Duration  time.Duration
}

// Operation is one kind of access.
type Operation int

// What is done again and again.
const (
	Write     Operation = iota // with O_DIRECT
	WriteSync                  // the same, with an fdatasync behind it
	Read                       // with O_DIRECT
)

// Access is how a disk is used.
type Access struct {
	Operation Operation
	Bytes     int // of each, a multiple of sectorBytes
	InFlight  int
}

// NewFiles says how files are written that nothing has been written to: their room is reserved, and the drive may have
// to find it only now. So are the broker's segments.
type NewFiles struct {
	Folder    string
	Files     int   // written to in turns, from their beginnings on
	FileBytes int64 // of each; when all are full the measurement ends
}

// Measure is what was found.
type Measure struct {
	Operations int64
	Bytes      int64
	Took       time.Duration
	Latency    *hdrhistogram.Histogram // of each operation, in microseconds
}

// MegabytesPerSecond counts a million bytes each.
func (m *Measure) MegabytesPerSecond() float64 {
	return float64(m.Bytes) / 1e6 / max(m.Took.Seconds(), 1e-9)
}

// OperationsPerSecond is how many there were each second.
func (m *Measure) OperationsPerSecond() float64 {
	return float64(m.Operations) / max(m.Took.Seconds(), 1e-9)
}
