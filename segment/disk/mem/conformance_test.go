package mem_test

import (
	"testing"

	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/segment/disk/disktest"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

func open(options mem.DriverOptions) func(testing.TB) disktest.Disk {
	return func(t testing.TB) disktest.Disk {
		waker, err := ring.NewWaker()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = waker.Close() })
		options.OpsMax, options.FilesMax, options.Waker = disktest.OpsMax, disktest.FilesMax, waker
		fs := mem.New()
		driver := fs.Driver(options)
		t.Cleanup(func() {
			if driver.Pending() == 0 {
				_ = driver.Close()
			}
		})
		return disktest.Disk{Driver: driver, FS: fs, Waker: waker}
	}
}

func TestConformance(t *testing.T) { disktest.Run(t, open(mem.DriverOptions{})) }

func TestConformanceReordered(t *testing.T) {
	disktest.Run(t, open(mem.DriverOptions{Reorder: true, Seed: 5, LatencyMax: 4}))
}
