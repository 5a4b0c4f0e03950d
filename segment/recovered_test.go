package segment

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// A start after a kill says so in one line, with what it read back, also when
// nothing had to be cut. One after a clean stop, or in a new folder, does not.
func TestRecoverySaysWhatCameBack(t *testing.T) {
	const line = "recovered after an end that was not clean"
	var out bytes.Buffer
	r := newRig(t, func(o *rigOptions) { o.said = slog.New(slog.NewTextHandler(&out, nil)) })
	o := r.serve(16)[0]
	o.append(1, 100)
	r.settle()
	if strings.Contains(out.String(), line) {
		t.Fatalf("a new folder: %s", out.String())
	}
	r.kill(1)
	r.open(16)
	r.store.Start()
	if got := out.String(); strings.Count(got, line) != 1 || !strings.Contains(got, "logs=1 frames=2 ") || !strings.Contains(got, "tails_cut=0") {
		t.Fatalf("after a kill: %s", got)
	}
	r.settle()
	r.stop()
	out.Reset()
	r.kill(1)
	r.open(16)
	r.store.Start()
	if strings.Contains(out.String(), line) {
		t.Fatalf("after a clean stop: %s", out.String())
	}
}
