package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// loopDisk is a small ext4 of its own, in a file of the folder.
type loopDisk struct {
	mount string
	taker *os.File // takes the space that is left
}

// lackLoop says why a small disk cannot be made.
func lackLoop(*stage) error {
	if os.Getuid() != 0 {
		return errors.New("mounting a small disk needs root")
	}
	for _, program := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("making a small disk needs %s", program)
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("mounting a small disk needs loop devices: %w", err)
	}
	return nil
}

// mountLoop makes and mounts a disk. No blocks are kept back for root, who the broker may be.
func mountLoop(folder string, bytes int64) (*loopDisk, error) {
	image := filepath.Join(folder, "disk")
	d := &loopDisk{mount: filepath.Join(folder, "mount")}
	if err := os.MkdirAll(d.mount, 0o700); err != nil {
		return nil, err
	}
	file, err := os.Create(image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Truncate(bytes), file.Close()); err != nil {
		return nil, err
	}
	for _, command := range []*exec.Cmd{exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", image), exec.Command("mount", "-o", "loop", image, d.mount)} {
		if out, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %w: %s", command.Args, err, out)
		}
	}
	return d, nil
}

// fill takes all space that is left, and whatever becomes free meanwhile is taken at the next call.
func (d *loopDisk) fill() error {
	if d.taker == nil {
		var err error
		if d.taker, err = os.Create(filepath.Join(d.mount, "taker")); err != nil {
			return err
		}
	}
	info, err := d.taker.Stat()
	if err != nil {
		return err
	}
	at := info.Size()
	for _, step := range []int64{16 << 20, 1 << 20, 64 << 10, 4 << 10} {
		for {
			err := syscall.Fallocate(int(d.taker.Fd()), 0, at, step)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			if err != nil {
				return err
			}
			at += step
		}
	}
	return nil
}

// release gives the space back.
func (d *loopDisk) release() error {
	if d.taker == nil {
		return nil
	}
	taker := d.taker
	d.taker = nil
	return errors.Join(taker.Close(), os.Remove(taker.Name()))
}

func (d *loopDisk) unmount() error {
	err := d.release()
	if out, e := exec.Command("umount", d.mount).CombinedOutput(); e != nil {
		err = errors.Join(err, fmt.Errorf("umount %s: %w: %s", d.mount, e, out))
		exec.Command("umount", "-l", d.mount).Run()
	}
	return err
}
