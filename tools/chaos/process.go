package main

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

// process is a broker that runs.
type process struct {
	command *exec.Cmd
	address string
	admin   string
	exited  chan struct{} // closed when it has ended
	err     error         // how, once exited is closed
}

// startProcess starts a broker and returns when it serves. Its log is added to a file.
func startProcess(program, log string, arguments ...string) (*process, error) {
	p := &process{command: exec.Command(program, arguments...), exited: make(chan struct{})}
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
func (p *process) follow(output io.Reader, file io.Writer, ready chan<- struct{}) {
	lines := bufio.NewReader(output)
	for {
		text, err := lines.ReadBytes('\n')
		file.Write(text)
		if err != nil {
			return
		}
		var line struct{ Msg, Address, Admin string }
		if json.Unmarshal(text, &line) == nil && line.Msg == "ready" {
			p.address, p.admin = line.Address, line.Admin
			ready <- struct{}{}
		}
	}
}

// alive fails when the broker has ended by itself.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("the broker ended by itself: %v", p.err)
	default:
		return nil
	}
}

// kill ends the process as a crash does.
func (p *process) kill() error {
	if err := p.alive(); err != nil {
		return err
	}
	p.command.Process.Kill()
	<-p.exited
	return nil
}

// terminate ends it as an operator does, and holds it to ending in time with 0.
func (p *process) terminate() error {
	if err := p.alive(); err != nil {
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

// pause stops the process for a while, without its knowing.
func (p *process) pause(d time.Duration) error {
	if err := p.alive(); err != nil {
		return err
	}
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	return p.command.Process.Signal(syscall.SIGCONT)
}
