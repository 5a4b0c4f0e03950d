package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// roundsDefault is short, so that it can run with every other test; PULSEMQ_CHAOS_ROUNDS is for longer runs.
const roundsDefault = 2

func TestMain(m *testing.M) {
	launched(os.Args) // a scenario starts brokers through the program that it is part of
	folder, err := os.MkdirTemp("", "pulsemq-chaos-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = folder
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// programs is where programs are built, each once.
var (
	programs   string
	brokerOnce = sync.OnceValues(func() (string, error) { return buildProgram("broker", "../..", "./cmd/pulsemq") })
	forgetOnce = sync.OnceValues(func() (string, error) { return buildProgram("forgetful", "forgetful", ".") })
)

func buildProgram(name, folder, target string) (string, error) {
	program := filepath.Join(programs, name)
	command := exec.Command("go", "build", "-o", program, target)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", target, err, out)
	}
	return program, nil
}

// testStage is a stage for the short form.
func testStage(t *testing.T) *stage {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts brokers")
	}
	program, err := brokerOnce()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{program: program, folder: t.TempDir(), seed: uint64(time.Now().UnixNano()), rounds: roundsDefault, say: t.Logf}
	if s.forgetful, err = forgetOnce(); err != nil {
		t.Logf("there is no disk that forgets: %v", err)
	}
	if text := os.Getenv("PULSEMQ_CHAOS_ROUNDS"); text != "" {
		if s.rounds, err = strconv.Atoi(text); err != nil || s.rounds < 1 {
			t.Fatalf("PULSEMQ_CHAOS_ROUNDS is %q; want a number of rounds", text)
		}
	}
	s.long = os.Getenv("PULSEMQ_CHAOS_LONG") == "1"
	return s
}

// playShort plays a scenario's short form, or its long one with PULSEMQ_CHAOS_LONG=1.
func playShort(t *testing.T, name string) {
	t.Helper()
	chosen, err := choose([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel() // most of what a scenario takes is waiting
	s := testStage(t)
	if why := chosen[0].lack(s); why != nil {
		t.Skip(why)
	}
	t.Logf("seed %d", s.seed)
	if err := playOne(context.Background(), chosen[0], *s); err != nil {
		log, _ := os.ReadFile(filepath.Join(s.folder, name, "broker.log"))
		t.Fatalf("%v\n%s", err, log[max(0, len(log)-8<<10):])
	}
}

// What is acknowledged survives the end of the process, however it ends.
func TestBrokerKilledUnderLoad(t *testing.T) { playShort(t, "rounds") }

// A disk that fails, in whatever way: what is acknowledged is kept, what failed is named.
func TestDiskFailsUnderLoad(t *testing.T) { playShort(t, "disk") }

// What is acknowledged with durability sync survives the loss of power. A kill proves nothing of this: the caches of the
// system survive it.
func TestPowerLostUnderLoad(t *testing.T) { playShort(t, "power") }

// An acknowledgement that a client has read is kept, however soon afterwards the broker is killed.
func TestKilledAtTheAcknowledgement(t *testing.T) { playShort(t, "acked-kill") }

// SIGTERM under load: what is under way is answered, clients are told, the exit is clean and in time.
func TestTerminatedUnderLoad(t *testing.T) { playShort(t, "terminate") }

// A broker that stood still acknowledges nothing stale, and its clients go on.
func TestPausedUnderLoad(t *testing.T) { playShort(t, "pause") }

// On a disk without one free block producers are refused and everything else works, also after a kill and after an exit.
func TestFullDiskUnderLoad(t *testing.T) { playShort(t, "full-disk") }

// Where io_uring is refused, worker threads take over, say so, and keep the same promises.
func TestUringRefused(t *testing.T) { playShort(t, "refused-uring") }

// Without file descriptors and above the limit of connections, who is there is served and who comes is refused.
func TestFewDescriptors(t *testing.T) { playShort(t, "descriptors") }

// A limit on the size of files makes segments smaller, and costs nothing that was acknowledged.
func TestFileSizeLimit(t *testing.T) { playShort(t, "file-size") }

// With little memory, heavy load is refused; the broker stays within its limit and serves again when the load ends.
func TestLittleMemory(t *testing.T) { playShort(t, "memory") }

// A start with many partitions is alive at once and ready later, and kills in the middle of it lose nothing.
func TestKilledWhileStarting(t *testing.T) { playShort(t, "restart") }

// The same on a full disk.
func TestKilledWhileStartingOnAFullDisk(t *testing.T) { playShort(t, "restart-full") }

// Rolling segments, creating and deleting topics over and over leaves nothing open and nothing in memory.
func TestSteady(t *testing.T) { playShort(t, "steady") }

// What a queue group was told is acked never comes again, however often the broker is killed, and what nobody acks is one
// dead letter.
func TestQueueGroupOfAKilledBroker(t *testing.T) { playShort(t, "queue") }
