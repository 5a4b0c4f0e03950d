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
	"syscall"
	"time"
)

const (
	readyWait = 60 * time.Second
	stopWait  = 40 * time.Second // longer than the broker's own limit
)

// Process is a broker that runs.
type Process struct {
	Address string // for clients
	Admin   string // for metrics

	command *exec.Cmd
	exited  chan struct{} // closed when it has ended
	err     error         // how, once exited is closed
}

// Start starts a broker and returns when it serves. Its log is added to a file.
func Start(program, log string, arguments ...string) (*Process, error) {
	p := &Process{command: exec.Command(program, arguments...), exited: make(chan struct{})}
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
	ready := make(chan struct{}, 1)
	go func() {
		p.follow(output, file, ready)
		file.Close()
		p.err = p.command.Wait()
		close(p.exited)
	}()
	select {
	case <-ready:
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("the broker did not start (%v); its log is %s", p.err, log)
	case <-time.After(readyWait):
		p.command.Process.Signal(syscall.SIGQUIT) // its goroutines end up in the log
		<-p.exited
		return nil, fmt.Errorf("the broker is not ready after %v; its log is %s", readyWait, log)
	}
}

// follow copies the log and tells when the broker is ready.
func (p *Process) follow(output io.Reader, file io.Writer, ready chan<- struct{}) {
	lines := bufio.NewReader(output)
	for {
		text, err := lines.ReadBytes('\n')
		file.Write(text)
		if err != nil {
			return
		}
		var line struct{ Msg, Address, Admin string }
		if json.Unmarshal(text, &line) == nil && line.Msg == "ready" {
			p.Address, p.Admin = line.Address, line.Admin
			ready <- struct{}{}
		}
	}
}

// PID is the number of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

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
	if err := p.Alive(); err != nil {
		return err
	}
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	return p.command.Process.Signal(syscall.SIGCONT)
}
