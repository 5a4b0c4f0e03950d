package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/segment/disk/disktest"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// Whatever Open chooses passes the suite.
func TestConformanceOfTheChoice(t *testing.T) {
	for _, kind := range []core.DiskChoice{core.DiskAuto, core.DiskPosix} {
		t.Run(kind.String(), func(t *testing.T) {
			disktest.Run(t, func(t testing.TB) disktest.Disk {
				runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
				waker, err := ring.NewWaker()
				if err != nil {
					t.Fatal(err)
				}
				folder, err := Open(filepath.Join(t.TempDir(), "made", "by", "open"), kind)
				if err != nil {
					t.Fatal(err)
				}
				driver, choice, err := folder.Driver(waker, Bounds{OpsMax: disktest.OpsMax, FilesMax: disktest.FilesMax})
				if err != nil {
					t.Fatal(err)
				}
				if choice != folder.Choice() || (kind == core.DiskPosix && choice != Choice{Driver: core.DiskPosix}) {
					t.Errorf("chose %+v", choice)
				}
				t.Cleanup(func() {
					if driver.Pending() == 0 {
						_ = driver.Close()
					}
					_ = folder.Close()
					_ = waker.Close()
				})
				return disktest.Disk{Driver: driver, FS: folder.FS(), Waker: waker}
			})
		})
	}
}

func TestSecondBrokerIsRefused(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, core.DiskPosix)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, core.DiskPosix)
	if !errors.Is(err, posix.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) ||
		!strings.Contains(err.Error(), dir) {
		t.Fatalf("second open: %v; want one that names the process and the folder", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, core.DiskPosix)
	if err != nil {
		t.Fatalf("open after close: %v", err)
	}
	_ = again.Close()
}
