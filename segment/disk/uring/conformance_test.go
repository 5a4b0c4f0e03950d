//go:build linux

package uring_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/segment/disk/disktest"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
	"github.com/pulsemq/pulsemq/segment/disk/uring"
)

func open(direct bool) func(testing.TB) disktest.Disk {
	return func(t testing.TB) disktest.Disk {
		if err := uring.Probe(); err != nil {
			t.Skipf("this kernel refuses it: %v", err)
		}
		runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
		waker, err := ring.NewWaker()
		if err != nil {
			t.Fatal(err)
		}
		folder, err := posix.OpenFolder(t.TempDir(), posix.FolderOptions{Lock: true, Direct: direct})
		if err != nil {
			t.Fatal(err)
		}
		driver, err := uring.New(folder, waker, uring.Options{
			OpsMax: disktest.OpsMax, FilesMax: disktest.FilesMax, NameWorkers: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if driver.Pending() == 0 {
				_ = driver.Close()
			}
			_ = folder.Close()
			_ = waker.Close()
		})
		return disktest.Disk{Driver: driver, FS: folder.FS(), Waker: waker}
	}
}

func TestConformance(t *testing.T) { disktest.Run(t, open(true)) }

// Older kernels get a ring with fewer flags, whose completions come another way.
func TestConformanceOfOlderSetups(t *testing.T) {
	for first := 1; first < uring.Setups(); first++ {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			defer uring.FromSetup(first)()
			disktest.Run(t, open(true))
		})
	}
}

func TestConformanceBuffered(t *testing.T) { disktest.Run(t, open(false)) }
