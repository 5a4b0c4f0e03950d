package host

import (
	"context"
	"errors"
	"testing"
)

func TestQuietEnds(t *testing.T) {
	if err := Quiet(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if err := Quiet(t.Context(), "/no such folder"); err == nil {
		t.Error("a folder that is missing is quiet")
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("called off"))
	if err := Quiet(ended, t.TempDir()); err == nil || err.Error() != "called off" {
		t.Errorf("called off, it says %v", err)
	}
}
