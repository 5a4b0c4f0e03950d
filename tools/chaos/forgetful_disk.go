package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// forgetfulDisk is a mount of tools/chaos/forgetful: at a cut it loses whatever was not synced.
type forgetfulDisk struct {
	mount   string
	process *exec.Cmd
	control net.Conn
	answers *bufio.Reader
	counted map[string]int // of each kind of fault, at the last disarm
}

// mountForgetful mounts the disk. With strict, only the sync of a folder makes names durable; without, the sync of a
// file makes its own name durable too, as ext4 does.
func mountForgetful(program, folder string, strict bool) (*forgetfulDisk, error) {
	d := &forgetfulDisk{mount: filepath.Join(folder, "mount")}
	backing, socket := filepath.Join(folder, "backing"), filepath.Join(folder, "control")
	if err := errors.Join(os.MkdirAll(d.mount, 0o700), os.MkdirAll(backing, 0o700)); err != nil {
		return nil, err
	}
	d.process = exec.Command(program, backing, d.mount, "--ctl", socket)
	if !strict {
		d.process.Args = append(d.process.Args, "--ext4")
	}
	d.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(folder, "forgetful.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	d.process.Stderr = log
	output, err := d.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
		d.process.Process.Kill()
		return nil, fmt.Errorf("%s did not mount: %q, %v", program, line, errors.Join(err, d.process.Wait()))
	}
	if d.control, err = net.Dial("unix", socket); err != nil {
		return nil, errors.Join(err, d.unmount())
	}
	d.answers = bufio.NewReader(d.control)
	return d, nil
}

// askLine sends a command and returns the line that answers it.
func (d *forgetfulDisk) askLine(command string) (string, error) {
	d.control.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintln(d.control, command); err != nil {
		return "", err
	}
	return d.answers.ReadString('\n')
}

// tell sends a command that has to succeed and returns what it answers behind ok.
func (d *forgetfulDisk) tell(command string) (string, error) {
	answer, err := d.askLine(command)
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(answer, "ok")
	if !ok {
		return "", fmt.Errorf("forgetful: %s: %s", command, answer)
	}
	return rest, nil
}

func (d *forgetfulDisk) ask(command string) error {
	_, err := d.tell(command)
	return err
}

// cut drops what is not synced: all of it, or all but a random part.
func (d *forgetfulDisk) cut(random *rand.Rand) error {
	if random.IntN(2) == 0 {
		return d.ask("cut clean")
	}
	return d.ask(fmt.Sprintf("cut --torn %d", random.Uint32()))
}

func (d *forgetfulDisk) restore() error { return d.ask("restore") }

func (d *forgetfulDisk) unmount() error {
	d.process.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- d.process.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		exec.Command("umount", "-l", d.mount).Run()
		d.process.Process.Kill()
		return errors.Join(errors.New("forgetful did not end"), <-ended)
	}
}
