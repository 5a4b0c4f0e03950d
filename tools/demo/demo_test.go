package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/tools/process"
)

// The programs of a test are shell scripts that play the parts of pulsemq and pulsebench.
const (
	// It is ready at once, notes its process, and ends with the code it is given when it is told to.
	brokerScript = `#!/bin/sh
echo $$ > "$(dirname "$0")/pid"
mkdir -p "$2"
trap 'exit %d' TERM
echo '{"msg":"ready","address":"127.0.0.1:1","admin":"127.0.0.1:2"}' >&2
while :; do sleep 0.01; done
`
	// It has moved as many messages as it says.
	benchScript = `#!/bin/sh
while [ "$1" != --json ]; do shift; done
echo '{"records":%d,"read_back":{"records":%d}}' > "$2"
`
)

// stage makes a folder of programs, and one for temporary files, which is watched.
func stage(t *testing.T, broker, bench string) (bin, temporary string) {
	t.Helper()
	bin, temporary = t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for name, text := range map[string]string{"pulsemq": broker, "pulsebench": bench} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin, temporary
}

// nothingLeft checks that the folder is gone and the broker has ended.
func nothingLeft(t *testing.T, bin, temporary string) {
	t.Helper()
	if entries, err := os.ReadDir(temporary); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	text, err := os.ReadFile(filepath.Join(bin, "pid"))
	if err != nil {
		return // it never ran
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Errorf("the broker, process %d, still runs", pid)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	good := fmt.Sprintf(brokerScript, 0)
	for _, c := range []struct {
		name          string
		broker, bench string
		want          string // in the error; empty when all goes well
	}{
		{"all goes well", good, fmt.Sprintf(benchScript, 100, 100), ""},
		{"the load fails", good, "#!/bin/sh\nexit 1\n", "pulsebench: exit status 1"},
		{"too few are stored", good, fmt.Sprintf(benchScript, 99, 99), "99 messages were stored"},
		{"too few are read back", good, fmt.Sprintf(benchScript, 100, 99), "99 read back"},
		{"the broker does not start", "#!/bin/sh\necho '{\"msg\":\"no disk\"}' >&2\nexit 1\n", "", "no disk"},
		{"the broker does not end cleanly", fmt.Sprintf(brokerScript, 3), fmt.Sprintf(benchScript, 100, 100), "exit status 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bin, temporary := stage(t, c.broker, c.bench)
			var out bytes.Buffer
			err := demo(context.Background(), &out, bin, 100)
			if c.want == "" && (err != nil || !strings.Contains(out.String(), "Look at next")) {
				t.Errorf("%v\n%s", err, out.String())
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			nothingLeft(t, bin, temporary)
		})
	}
}

func TestInterruptCleansUp(t *testing.T) {
	bin, temporary := stage(t, fmt.Sprintf(brokerScript, 0), "#!/bin/sh\n: > \"$(dirname \"$0\")/loading\"\nexec sleep 60\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- demo(ctx, new(bytes.Buffer), bin, 100) }()
	for {
		if _, err := os.Stat(filepath.Join(bin, "loading")); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatal("it ended before it was interrupted:", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "called off") {
		t.Errorf("the error is %v", err)
	}
	nothingLeft(t, bin, temporary)
}

// The demo as a newcomer runs it, with fewer messages.
func TestRealPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs")
	}
	bin := t.TempDir()
	if err := process.Build(bin, "pulsemq", "pulsebench"); err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var out bytes.Buffer
	if err := demo(context.Background(), &out, bin, 20_000); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "20000 messages are stored") {
		t.Error(out.String())
	}
	nothingLeft(t, bin, temporary)
}
