package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// roundsDefault is short, so that it can run with every other test; PULSEMQ_CHAOS_ROUNDS is for longer runs.
const roundsDefault = 3

// build makes a program of this repository.
func build(t *testing.T, folder, target string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	command := exec.Command("go", "build", "-o", program, target)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", target, err, out)
	}
	return program
}

func runPlan(t *testing.T, p *plan) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts brokers")
	}
	p.rounds = roundsDefault
	if s := os.Getenv("PULSEMQ_CHAOS_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("PULSEMQ_CHAOS_ROUNDS is %q; want a number of rounds", s)
		}
		p.rounds = n
	}
	p.seed = uint64(time.Now().UnixNano())
	t.Logf("seed %d", p.seed)
	p.program, p.folder, p.say = build(t, "../..", "./cmd/pulsemq"), t.TempDir(), t.Logf
	if err := p.run(context.Background()); err != nil {
		log, _ := os.ReadFile(filepath.Join(p.folder, "broker.log"))
		t.Fatalf("%v\n%s", err, log[max(0, len(log)-8<<10):])
	}
}

// What is acknowledged survives the end of the process, however it ends.
func TestBrokerKilledUnderLoad(t *testing.T) {
	runPlan(t, &plan{faults: []string{"kill", "kill", "term", "pause"}})
}

// What is acknowledged with durability sync survives the loss of power. A kill proves nothing of this: the caches of the
// system survive it.
func TestPowerLostUnderLoad(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk that forgets needs root")
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skip("mounting a disk that forgets needs FUSE: ", err)
	} else {
		f.Close()
	}
	if testing.Short() {
		t.Skip("it starts brokers")
	}
	runPlan(t, &plan{faults: []string{"power", "power", "kill"}, forgetful: build(t, "forgetful", ".")})
}
