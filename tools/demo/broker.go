package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pulsemq/pulsemq/tools/process"
)

const (
	// readyWait bounds the wait for a broker to serve, and stopWait for it to end.
	readyWait = 30 * time.Second
	stopWait  = 30 * time.Second

	// logLinesMax is how much of the broker's log is shown when something fails.
	logLinesMax = 20
)

// broker is the demo's broker: a process with ports of its own.
type broker struct {
	address string // for clients
	admin   string // for metrics
	data    string

	command *exec.Cmd
	log     *logTail
	exited  chan struct{} // closed when the process has ended
	err     error         // how it ended, once exited is closed
}

// readyLine is the line of the log that says that the broker serves.
type readyLine struct {
	Message string `json:"msg"`
	Address string `json:"address"`
	Admin   string `json:"admin"`
}

// startBroker returns once the broker serves. When it does not, nothing of it is left running.
func startBroker(ctx context.Context, program, data string) (*broker, error) {
	b := &broker{data: data, exited: make(chan struct{})}
	b.command = exec.Command(program, "--data-dir", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	b.command.Env = process.Environment()
	// In a group of its own it does not get the terminal's interrupt: the demo stops it, once, when the load has ended.
	b.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := b.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := b.command.Start(); err != nil {
		return nil, err
	}
	ready := make(chan readyLine, 1)
	b.log = new(logTail)
	go func() {
		b.log.follow(output, ready)
		b.err = b.command.Wait() // only after its output has ended
		close(b.exited)
	}()
	timeout := time.NewTimer(readyWait)
	defer timeout.Stop()
	select {
	case line := <-ready:
		b.address, b.admin = line.Address, line.Admin
		return b, nil
	case <-b.exited:
		return nil, fmt.Errorf("the broker did not start (%v):\n%s", b.err, b.log)
	case <-ctx.Done():
		return nil, errors.Join(errors.New("called off"), b.stop())
	case <-timeout.C:
		return nil, errors.Join(fmt.Errorf("the broker is not ready after %v", readyWait), b.stop())
	}
}

// stop ends the broker with SIGTERM and holds it to its promise to end cleanly.
func (b *broker) stop() error {
	select {
	case <-b.exited:
		return fmt.Errorf("the broker ended by itself (%v):\n%s", b.err, b.log)
	default:
	}
	if err := b.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timeout := time.NewTimer(stopWait)
	defer timeout.Stop()
	select {
	case <-b.exited:
	case <-timeout.C:
		_ = b.command.Process.Kill() // it may have ended just now
		<-b.exited
		return fmt.Errorf("the broker did not end within %v of SIGTERM:\n%s", stopWait, b.log)
	}
	if b.err != nil {
		return fmt.Errorf("the broker did not end cleanly (%v):\n%s", b.err, b.log)
	}
	return nil
}

// logTail keeps the end of the broker's log. It is read only after the process has ended.
type logTail struct{ lines []string }

// follow reads the log to its end and tells when the broker is ready.
func (l *logTail) follow(output io.Reader, ready chan<- readyLine) {
	scanner := bufio.NewScanner(output)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if l.lines = append(l.lines, scanner.Text()); len(l.lines) > logLinesMax {
			l.lines = slices.Delete(l.lines, 0, 1)
		}
		var line readyLine
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Message == "ready" {
			select {
			case ready <- line:
			default: // it has said so before
			}
		}
	}
	_, _ = io.Copy(io.Discard, output) // after a line that is too long, so that the broker is not held up
}

func (l *logTail) String() string { return strings.Join(l.lines, "\n") }
