package posix_test

import (
	"testing"

	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/segment/disk/disktest"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

func open(direct bool) func(testing.TB) disktest.Disk {
	return openChosen(direct, func(*posix.Folder) {})
}

func openChosen(direct bool, choose func(*posix.Folder)) func(testing.TB) disktest.Disk {
	return func(t testing.TB) disktest.Disk {
		waker, err := ring.NewWaker()
		if err != nil {
			t.Fatal(err)
		}
		folder, err := posix.OpenFolder(t.TempDir(), posix.FolderOptions{Lock: true, Direct: direct})
		if err != nil {
			t.Fatal(err)
		}
		choose(folder)
		driver := posix.NewDriver(folder, waker, posix.DriverOptions{
			OpsMax: disktest.OpsMax, FilesMax: disktest.FilesMax, Workers: 3,
		})
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

func TestConformance(t *testing.T) { disktest.Run(t, open(false)) }

// Names are resolved with os.Root where the kernel does not do it.
func TestConformanceRooted(t *testing.T) {
	disktest.Run(t, openChosen(false, (*posix.Folder).ResolveRooted))
}

func TestConformanceDirect(t *testing.T) { disktest.Run(t, open(true)) }
