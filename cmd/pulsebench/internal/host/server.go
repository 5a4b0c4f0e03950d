package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pulsemq/pulsemq/tools/process"
)

// Server is one side of a comparison: a process that this one has started, or a broker that somebody else runs.
type Server struct {
	Address string // for clients
	Admin   string // for metrics; empty when there are none
	Data    string // folder of the broker; empty when it is not known

	program   string
	arguments []string
	folder    string // of its own, removed with it
	process   *process.Process
}

// StartBroker starts a broker on free ports, with new data in a folder of its own under folder.
func StartBroker(program, folder string, more ...string) (*Server, error) {
	own, err := os.MkdirTemp(folder, "pulsebench-broker-")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(own, "data")
	s := &Server{Data: data, program: program, folder: own,
		arguments: append([]string{"--data-dir", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, more...)}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(own))
	}
	return s, nil
}

// StartEcho starts this program as an echo server.
func StartEcho(folder string, arguments ...string) (*Server, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	own, err := os.MkdirTemp(folder, "pulsebench-echo-")
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, folder: own, arguments: append([]string{"echo", "--listen", "127.0.0.1:0"}, arguments...)}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(own))
	}
	return s, nil
}

// Started reports whether the process is this one's, so that it can be ended and started again.
func (s *Server) Started() bool { return s.process != nil }

// Start starts the process, again after Kill or Terminate. The ports are other ones then.
func (s *Server) Start() error {
	p, err := process.Start(s.program, filepath.Join(s.folder, "log"), s.arguments...)
	if err != nil {
		return err
	}
	s.process, s.Address, s.Admin = p, p.Address, p.Admin
	return nil
}

// Kill ends the process as a crash does.
func (s *Server) Kill() error { return s.process.Kill() }

// Terminate ends it as an operator does.
func (s *Server) Terminate() error { return s.process.Terminate() }

// Stop ends what was started and removes its files. A broker of somebody else is left alone.
func (s *Server) Stop() error {
	if s.process == nil {
		return nil
	}
	var err error
	if s.process.Alive() == nil {
		err = s.process.Terminate()
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

// Destroy ends it whatever state it is in, and removes its files.
func (s *Server) Destroy() {
	if s.process == nil {
		return
	}
	s.process.Destroy()
	os.RemoveAll(s.folder)
}

// Usage is what the server has taken so far; false when nobody can say.
func (s *Server) Usage(ctx context.Context) (Usage, bool) {
	if s.process != nil {
		if u, err := UsageOf(s.process.PID()); err == nil {
			return u, true
		}
	}
	if s.Admin == "" {
		return Usage{}, false
	}
	page, err := ReadPage(ctx, s.Admin)
	return page.Usage(), err == nil
}

// ProcessorTime is that of Usage, or 0.
func (s *Server) ProcessorTime() time.Duration {
	u, _ := s.Usage(context.Background())
	return u.Processor
}

// DropCaches has the kernel forget what it keeps in memory of the broker's files, so that they are read from the disk.
func (s *Server) DropCaches() error {
	return filepath.WalkDir(s.Data, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return dropCache(name)
	})
}
