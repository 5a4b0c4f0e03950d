// Package process runs a broker as a process of its own, for tests and tools that do to it what only happens to processes.
package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	readyWait = 60 * time.Second
	stopWait  = 40 * time.Second // longer than the broker's own limit
)

// Process is a broker that runs.
type Process struct {
	Address string // for clients, once it serves
	Admin   string // for metrics, once Started or Ready has returned

	command *exec.Cmd
	log     string
	started chan struct{} // closed when the operators' port is open
	ready   chan struct{} // closed when it serves
	exited  chan struct{} // closed when it has ended
	err     error         // how, once exited is closed
}

// Start starts a broker and returns when it serves. Its log is added to a file.
func Start(program, log string, arguments ...string) (*Process, error) {
	p, err := Launch(program, log, arguments...)
	if err != nil {
		return nil, err
	}
	if err := p.Ready(readyWait); err != nil {
		return nil, err
	}
	return p, nil
}

// Launch starts a broker and returns at once.
func Launch(program, log string, arguments ...string) (*Process, error) {
	p := &Process{command: exec.Command(program, arguments...), log: log,
		started: make(chan struct{}), ready: make(chan struct{}), exited: make(chan struct{})}
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.command.Env = Environment()
	output, err := p.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(file, "--- %v %q\n", time.Now().Format(time.TimeOnly), arguments)
	if err := p.command.Start(); err != nil {
		file.Close()
		return nil, err
	}
	go func() {
		p.follow(output, file)
		file.Close()
		p.err = p.command.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Started waits until the operators' port is open, which comes before a long recovery.
func (p *Process) Started(limit time.Duration) error { return p.wait(p.started, "started", limit) }

// Ready waits until the broker serves. A broker that does not in time is ended.
func (p *Process) Ready(limit time.Duration) error { return p.wait(p.ready, "ready", limit) }

func (p *Process) wait(reached <-chan struct{}, what string, limit time.Duration) error {
	select {
	case <-reached:
		return nil
	case <-p.exited:
		return fmt.Errorf("the broker did not start (%v); its log is %s", p.err, p.log)
	case <-time.After(limit):
		p.command.Process.Signal(syscall.SIGQUIT) // its goroutines end up in the log
		<-p.exited
		return fmt.Errorf("the broker is not %s after %v; its log is %s", what, limit, p.log)
	}
}

// follow copies the log and tells when the broker has started and when it is ready.
func (p *Process) follow(output io.Reader, file io.Writer) {
	lines := bufio.NewReader(output)
	started, ready := false, false
	for {
		text, err := lines.ReadBytes('\n')
		file.Write(text)
		if err != nil {
			return
		}
		var line struct{ Msg, Address, Admin string }
		if json.Unmarshal(text, &line) != nil || line.Msg != "ready" && line.Msg != "starting" {
			continue
		}
		if line.Admin != "" && !started {
			started, p.Admin = true, line.Admin
			close(p.started)
		}
		if line.Msg == "ready" && !ready {
			ready, p.Address = true, line.Address
			close(p.ready)
		}
	}
}

// PID is the number of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive fails when the broker has ended by itself.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("the broker ended by itself: %v", p.err)
	default:
		return nil
	}
}

// Kill ends the process as a crash does.
func (p *Process) Kill() error {
	if err := p.Alive(); err != nil {
		return err
	}
	p.Destroy()
	return nil
}

// Destroy makes sure that the process is gone, whatever state it is in.
func (p *Process) Destroy() {
	p.command.Process.Kill()
	<-p.exited
}

// Terminate ends it as an operator does, and holds it to ending in time with 0.
func (p *Process) Terminate() error {
	if err := p.Alive(); err != nil {
		return err
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(stopWait):
		p.command.Process.Signal(syscall.SIGQUIT)
		<-p.exited
		return errors.New("the broker did not end after SIGTERM")
	}
}

// Pause stops the process for a while, without its knowing.
func (p *Process) Pause(d time.Duration) error {
	if err := p.Halt(); err != nil {
		return err
	}
	time.Sleep(d)
	return p.Resume()
}

// Halt stops the process until Resume, without its knowing.
func (p *Process) Halt() error {
	if err := p.Alive(); err != nil {
		return err
	}
	return p.command.Process.Signal(syscall.SIGSTOP)
}

// Resume lets a halted process go on.
func (p *Process) Resume() error { return p.command.Process.Signal(syscall.SIGCONT) }

// Environment is the one of this process without the variables that are settings of a broker, or look like it: it refuses
// those that it does not know, and a test's own are among them.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "PULSEMQ_") })
}
