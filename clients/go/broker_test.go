package pulsemq_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
)

// brokerSource is where the broker's program lies, seen from here.
const brokerSource = "../../cmd/pulsemq"

// errNoBroker says that there is no program to start: this module has been taken out of its repository.
var errNoBroker = errors.New("neither PULSEMQ_BIN nor " + brokerSource + " is there")

// brokers is where the examples connect to.
var brokers = "mq://localhost:9090"

func TestMain(m *testing.M) {
	if address := os.Getenv(memberVariable); address != "" {
		os.Exit(memberMain(address))
	}
	if address := os.Getenv(queueVariable); address != "" {
		os.Exit(queueMemberMain(address))
	}
	flag.Parse()
	if skip := flag.Lookup("test.skip").Value; brokerMissing() && skip.String() == "" {
		// The broker in memory keeps no groups, and an example cannot skip itself.
		if err := skip.Set("^Example(Group|Queue)"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	exampleStop()
	if dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// dir holds the program that brokerProgram has built.
var dir string

// brokerProgram is PULSEMQ_BIN, or the program built from this repository.
var brokerProgram = sync.OnceValues(func() (string, error) {
	if program := os.Getenv("PULSEMQ_BIN"); program != "" {
		return program, nil
	}
	if brokerMissing() {
		return "", errNoBroker
	}
	var err error
	if dir, err = os.MkdirTemp("", "pulsemq-go"); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "pulsemq")
	build := exec.Command("go", "build", "-o", program, "./cmd/pulsemq")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/pulsemq: %w\n%s", err, out)
	}
	return program, nil
})

// brokerMissing says whether there is no broker to start.
func brokerMissing() bool {
	_, err := os.Stat(brokerSource)
	return err != nil && os.Getenv("PULSEMQ_BIN") == ""
}

// broker is a broker that runs as a process of its own.
type broker struct {
	process *exec.Cmd
	data    string
	address string
	admin   string
	done    chan struct{} // closed when its log has ended
}

// startBroker starts a broker on a folder and returns when it serves.
func startBroker(data, listen string, flags ...string) (*broker, error) {
	program, err := brokerProgram()
	if err != nil {
		return nil, err
	}
	b := &broker{process: exec.Command(program, append([]string{"--data-dir", data, "--listen", listen, "--admin", "127.0.0.1:0"}, flags...)...), data: data, done: make(chan struct{})}
	// The broker takes PULSEMQ_ variables for settings, and PULSEMQ_BIN is none.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PULSEMQ_") {
			b.process.Env = append(b.process.Env, v)
		}
	}
	log, err := b.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := b.process.Start(); err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	go b.follow(log, ready)
	select {
	case err = <-ready:
	case <-time.After(time.Minute):
		err = errors.New("the broker is not ready after a minute")
	}
	if err != nil {
		b.kill()
		return nil, err
	}
	return b, nil
}

// follow reads the log to its end and looks for the line that says ready.
func (b *broker) follow(log io.Reader, ready chan<- error) {
	defer close(b.done)
	lines := bufio.NewScanner(log)
	last := ""
	for lines.Scan() {
		last = lines.Text()
		var line struct{ Msg, Address, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
			b.address, b.admin = line.Address, line.Admin
			ready <- nil
		}
	}
	select {
	case ready <- fmt.Errorf("the broker ended before it was ready; its log ends with %s", last):
	default:
	}
}

// kill ends the broker as a crash does.
func (b *broker) kill() { b.end(syscall.SIGKILL) }

// stop ends the broker as an operator does.
func (b *broker) stop() { b.end(syscall.SIGTERM) }

func (b *broker) end(s syscall.Signal) {
	b.process.Process.Signal(s)
	<-b.done
	b.process.Wait()
}

// realBroker starts a broker for a test, or skips it when there is none to start.
func realBroker(t *testing.T, flags ...string) *broker {
	t.Helper()
	b, err := startBroker(t.TempDir(), "127.0.0.1:0", flags...)
	if errors.Is(err, errNoBroker) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop() })
	return b
}

// exampleStop ends what exampleStart has started.
var exampleStop = func() {}

// exampleStart gives the examples a broker: a real one, or one in memory when this module is alone. All share it.
var exampleStart = sync.OnceFunc(func() {
	data, err := os.MkdirTemp("", "pulsemq-go-data")
	if err != nil {
		panic(err)
	}
	b, err := startBroker(data, "127.0.0.1:0")
	switch {
	case errors.Is(err, errNoBroker):
		c := fakebroker.New(1)
		brokers, exampleStop = c.Addresses(), c.Close
	case err != nil:
		panic(err)
	default:
		brokers = "mq://" + b.address
		exampleStop = func() {
			b.stop()
			os.RemoveAll(data)
		}
	}
})
