package mem

import (
	"strings"
	"syscall"

	"github.com/pulsemq/pulsemq/core"
)

// FaultAction says what a fault does to an operation.
type FaultAction uint8

const (
	// FaultFail answers Err; nothing is done. After a failed sync of a file its
	// unsynced content is lost in a crash even if a later sync succeeds.
	FaultFail FaultAction = iota
	// FaultDelay holds the operation back for Delay; driver only.
	FaultDelay
	// FaultShort stores the first Bytes of a write and answers ErrDiskShort.
	FaultShort
	// FaultTear stores the first Bytes of a write and answers Err.
	FaultTear
	// FaultFlip flips bit number Bit (modulo the length) of what a read returns, or
	// of what a write stores; the operation succeeds.
	FaultFlip
	// FaultLie answers success to a sync of a file or a folder that was not done.
	FaultLie
)

// Fault is a rule: it hits the operations that match it, after Skip of them and
// for Count of them.
type Fault struct {
	// Kind is the kind that it hits; zero is every kind.
	Kind core.DiskOpKind
	// Path is a pattern in which '*' stands for any text, '/' included. Empty
	// matches every path. A file keeps the path that it was opened by.
	Path string
	// Skip is how many matching operations pass before the first hit.
	Skip int
	// Count is how many are hit; zero is one, negative is all.
	Count int

	Action FaultAction
	Err    error // of FaultFail and FaultTear; nil is EIO
	Delay  int64 // of FaultDelay, in the driver's time
	Bytes  int   // of FaultShort and FaultTear
	Bit    int64 // of FaultFlip

	seen, hits int
}

// Hits is how many operations the rule has hit.
func (f *Fault) Hits() int { return f.hits }

// Inject adds a rule. The first rule that hits an operation is the only one.
func (s *FS) Inject(f *Fault) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
	return f
}

// ClearFaults removes all rules.
func (s *FS) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Injected is how many operations the present rules have hit, by kind of action.
func (s *FS) Injected() (counts [FaultLie + 1]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		counts[f.Action] += f.hits
	}
	return counts
}

// match finds the rule that hits an operation now, and counts it. Delays are
// matched apart, when an operation reaches the driver.
func (s *FS) match(kind core.DiskOpKind, path string) *Fault {
	for _, f := range s.faults {
		if f.Action != FaultDelay && f.fits(kind) && f.hit(kind, path) {
			return f
		}
	}
	return nil
}

// delay is how long the driver holds an operation back.
func (s *FS) delay(kind core.DiskOpKind, path string) int64 {
	for _, f := range s.faults {
		if f.Action == FaultDelay && f.hit(kind, path) {
			return f.Delay
		}
	}
	return 0
}

// fits says whether the action means something for the kind, so that a rule for
// every kind does not count hits that nobody could notice.
func (f *Fault) fits(kind core.DiskOpKind) bool {
	switch f.Action {
	case FaultShort, FaultTear:
		return kind == core.DiskWrite
	case FaultFlip:
		return kind == core.DiskRead || kind == core.DiskWrite
	case FaultLie:
		return kind == core.DiskSync || kind == core.DiskSyncDir
	}
	return true
}

func (f *Fault) hit(kind core.DiskOpKind, path string) bool {
	if (f.Kind != 0 && f.Kind != kind) || (f.Path != "" && !glob(f.Path, path)) {
		return false
	}
	f.seen++
	count := f.Count
	if count == 0 {
		count = 1
	}
	if f.seen <= f.Skip || (count > 0 && f.hits >= count) {
		return false
	}
	f.hits++
	return true
}

// fail is match for operations that can only fail.
func (s *FS) fail(kind core.DiskOpKind, path string) error {
	return s.match(kind, path).failure()
}

// failure is the error of a rule that keeps the operation from being done.
func (f *Fault) failure() error {
	if f == nil || f.Action != FaultFail {
		return nil
	}
	return f.error()
}

func (f *Fault) error() error {
	if f.Err == nil {
		return syscall.EIO
	}
	return f.Err
}

func (f *Fault) flip(p []byte) {
	bit := f.Bit % (int64(len(p)) * 8)
	p[bit/8] ^= 1 << (bit % 8)
}

// glob matches text against a pattern in which '*' stands for any text.
func glob(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	for text = text[len(first):]; ; text = text[1:] {
		if glob(rest, text) {
			return true
		}
		if text == "" {
			return false
		}
	}
}
