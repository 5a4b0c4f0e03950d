package mem

import (
	"fmt"
	"math/rand/v2"
	"syscall"

	"github.com/pulsemq/pulsemq/core"
)

// FaultMix says what RandomFaults may draw.
type FaultMix struct {
	Count   int               // rules
	Paths   []string          // patterns
	Kinds   []core.DiskOpKind // kinds of operations
	Actions []FaultAction     // an action that means nothing for its kind becomes FaultFail
	SkipMax int               // operations that may pass before a hit
	// DelayMax bounds FaultDelay, in the driver's time; zero is 100.
	DelayMax int64
}

// InjectedError is what the rules of RandomFaults answer: the error of the disk, and
// which rule it was, so that a test can look for it where errors come to light.
type InjectedError struct {
	Rule  int
	Cause error
}

func (e *InjectedError) Error() string { return fmt.Sprintf("injected fault #%d: %v", e.Rule, e.Cause) }

// Unwrap gives the disk's error.
func (e *InjectedError) Unwrap() error { return e.Cause }

// RandomFaults draws a bounded set of rules that is the same for a seed. Each hits
// once and answers an error of its own.
func RandomFaults(seed uint64, mix FaultMix) []*Fault {
	random := rand.New(rand.NewPCG(seed, 0x6661756c74))
	if mix.DelayMax == 0 {
		mix.DelayMax = 100
	}
	faults := make([]*Fault, mix.Count)
	for i := range faults {
		f := &Fault{
			Kind:   mix.Kinds[random.IntN(len(mix.Kinds))],
			Path:   mix.Paths[random.IntN(len(mix.Paths))],
			Skip:   random.IntN(mix.SkipMax + 1),
			Action: mix.Actions[random.IntN(len(mix.Actions))],
			Delay:  1 + random.Int64N(mix.DelayMax),
			Bytes:  random.IntN(2 * pageBytes),
			Bit:    random.Int64N(1 << 20),
		}
		if !f.fits(f.Kind) {
			f.Action = FaultFail
		}
		cause := error(syscall.EIO)
		if (f.Kind == core.DiskWrite || f.Kind == core.DiskAllocate || f.Kind == core.DiskCreate) && random.IntN(3) == 0 {
			cause = syscall.ENOSPC
		}
		f.Err = &InjectedError{Rule: i, Cause: cause}
		faults[i] = f
	}
	return faults
}
