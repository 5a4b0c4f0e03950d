package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	readyWait = 60 * time.Second
	stopWait  = 60 * time.Second

	// logLinesMax is how much of a broker's log is shown when something fails.
	logLinesMax = 20
)

// server is a broker's process. Its standard error has a line {"msg":"ready","address":"HOST:PORT"}.
type server struct {
	address string
	command *exec.Cmd
	log     []string      // its end; read only once exited is closed
	exited  chan struct{} // closed when the process has ended
	err     error
}

func startServer(ctx context.Context, program string, arguments ...string) (*server, error) {
	s := &server{command: exec.Command(program, arguments...), exited: make(chan struct{})}
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal's interrupt is not its business
	output, err := s.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		s.follow(output, ready)
		s.err = s.command.Wait()
		close(s.exited)
	}()
	timeout := time.NewTimer(readyWait)
	defer timeout.Stop()
	select {
	case s.address = <-ready:
		return s, nil
	case <-s.exited:
		return nil, fmt.Errorf("%s did not start (%v):\n%s", program, s.err, strings.Join(s.log, "\n"))
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), s.stop())
	case <-timeout.C:
		return nil, errors.Join(fmt.Errorf("%s is not ready after %v", program, readyWait), s.stop())
	}
}

func (s *server) follow(output io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if s.log = append(s.log, lines.Text()); len(s.log) > logLinesMax {
			s.log = s.log[1:]
		}
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
			select {
			case ready <- line.Address:
			default: // it has said so before
			}
		}
	}
	_, _ = io.Copy(io.Discard, output) // after a line that is too long, so that the broker is not held up
}

// stop ends the process with SIGTERM, and with SIGKILL when that does not do.
func (s *server) stop() error {
	select {
	case <-s.exited:
		return fmt.Errorf("%s ended by itself (%v):\n%s", s.command.Path, s.err, strings.Join(s.log, "\n"))
	default:
	}
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timeout := time.NewTimer(stopWait)
	defer timeout.Stop()
	select {
	case <-s.exited:
		return nil
	case <-timeout.C:
		_ = s.command.Process.Kill() // it may have ended just now
		<-s.exited
		return fmt.Errorf("%s did not end within %v", s.command.Path, stopWait)
	}
}
