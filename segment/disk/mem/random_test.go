package mem

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

func TestRandomFaults(t *testing.T) {
	mix := FaultMix{
		Count: 200, Paths: []string{"a*", "b*"}, SkipMax: 3,
		Kinds:   []core.DiskOpKind{core.DiskWrite, core.DiskSync, core.DiskCreate},
		Actions: []FaultAction{FaultFail, FaultDelay, FaultTear},
	}
	faults := RandomFaults(7, mix)
	if !reflect.DeepEqual(faults, RandomFaults(7, mix)) {
		t.Error("the same seed drew other rules")
	}
	if reflect.DeepEqual(faults, RandomFaults(8, mix)) {
		t.Error("another seed drew the same rules")
	}
	seen := map[any]int{}
	for i, f := range faults {
		seen[f.Kind]++
		seen[f.Action]++
		seen[f.Path]++
		var injected *InjectedError
		if !errors.As(f.Err, &injected) || injected.Rule != i {
			t.Fatalf("rule %d answers %v", i, f.Err)
		}
		if !f.fits(f.Kind) || f.Skip > mix.SkipMax || f.Delay < 1 || f.Delay > 100 {
			t.Fatalf("rule %d is %+v", i, f)
		}
		if errors.Is(f.Err, syscall.ENOSPC) {
			seen["full"]++
			if f.Kind == core.DiskSync {
				t.Fatal("a sync met a full disk")
			}
		}
	}
	if len(seen) != 3+3+2+1 {
		t.Errorf("only %v were drawn", seen)
	}
}

// The error of a rule is found where the operation's error goes, as the disk's own.
func TestInjectedErrorIsTheDisks(t *testing.T) {
	s := New()
	s.Inject(&Fault{Kind: core.DiskCreate, Err: &InjectedError{Rule: 3, Cause: syscall.ENOSPC}})
	_, err := s.Create("x")
	if !errors.Is(err, core.ErrDiskFull) || !strings.Contains(err.Error(), "injected fault #3") {
		t.Errorf("the error is %v", err)
	}
}
