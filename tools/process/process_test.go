package process

import (
	"slices"
	"strings"
	"testing"
)

// A broker refuses settings that it does not know, and takes variables for settings: those that tell a test how long to
// run must not reach it.
func TestEnvironmentHasNoSettings(t *testing.T) {
	t.Setenv("PULSEMQ_CHAOS_LONG", "1")
	t.Setenv("OTHER", "kept")
	got := Environment()
	if i := slices.IndexFunc(got, func(v string) bool { return strings.HasPrefix(v, "PULSEMQ_") }); i >= 0 {
		t.Errorf("%s is left", got[i])
	}
	if !slices.Contains(got, "OTHER=kept") {
		t.Error("what is no setting is gone")
	}
}
