// Package process runs a broker as a process of its own, for tests and tools that do to it what only happens to processes.
package process

import (
	"bufio"
	"encoding/json"
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
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-reached:
		return nil
	case <-p.exited:
		return fmt.Errorf("the broker did not start (%v); its log %s ends with\n%s", p.err, p.log, p.Said())
	case <-timeout.C:
		p.command.Process.Signal(syscall.SIGQUIT) // its goroutines end up in the log
		<-p.exited
		return fmt.Errorf("the broker is not %s after %v; its log %s ends with\n%s", what, limit, p.log, p.Said())
	}
}

// saidBytesMax is how much of a log is shown when something fails.
const saidBytesMax = 8 << 10

// Said is the end of the log. A test's folder is gone when somebody reads what it says.
func (p *Process) Said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-saidBytesMax):])
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

// Build builds programs of this repository, such as "pulsemq", into a folder.
func Build(folder string, names ...string) error {
	arguments := []string{"build", "-o", folder + string(os.PathSeparator)}
	for _, name := range names {
		arguments = append(arguments, "github.com/pulsemq/pulsemq/cmd/"+name)
	}
	if out, err := exec.Command("go", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", arguments, err, out)
	}
	return nil
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
	timeout := time.NewTimer(stopWait)
	defer timeout.Stop()
	select {
	case <-p.exited:
	case <-timeout.C:
		p.command.Process.Signal(syscall.SIGQUIT)
		<-p.exited
		return fmt.Errorf("the broker did not end within %v of SIGTERM; its log %s ends with\n%s", stopWait, p.log, p.Said())
	}
	if p.err != nil {
		return fmt.Errorf("the broker did not end cleanly (%w); its log %s ends with\n%s", p.err, p.log, p.Said())
	}
	return nil
}

// Pause stops the process for a while, without its knowing.
func (p *Process) Pause(d time.Duration) error {
	if err := p.Halt(); err != nil {
		return err
	}
	time.Sleep(d)
	return p.Resume()
}

// Halt stops the process until Resume, without its knowing. It stands still when Halt returns.
func (p *Process) Halt() error {
	if err := p.Alive(); err != nil {
		return err
	}
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.PID(), &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("the broker does not stand still after SIGSTOP (%v)", err)
	}
	return nil
}

// Resume lets a halted process go on.
func (p *Process) Resume() error { return p.command.Process.Signal(syscall.SIGCONT) }

// Environment is the one of this process without the variables that are settings of a broker, or look like it: it refuses
// those that it does not know, and a test's own are among them.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "PULSEMQ_") })
}
