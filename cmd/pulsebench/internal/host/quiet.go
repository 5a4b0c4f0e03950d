package host

import (
	"context"
	"os"
	"time"
)

const (
	// quietMost is how long a disk is waited for: a broker gives the space of what was deleted back within half of it.
	quietMost = time.Minute

	// quietLook is the time between two looks, of which quietLooks in a row have to find nothing.
	quietLook  = 40 * time.Millisecond
	quietLooks = 5

	// quietBytes is how much may become free between two looks while nothing is being removed.
	quietBytes = 4 << 20

	// A sync of a quiet disk takes at most quietTimes as long as the shortest that was seen, and quietSlack.
	quietTimes = 4
	quietSlack = time.Millisecond
)

// Quiet waits until the disk of a folder is done with what was removed from it: gigabytes that a broker, or the file
// system, gives back in the background keep the drive busy for seconds. After quietMost it goes on anyway.
func Quiet(ctx context.Context, folder string) error {
	file, err := os.CreateTemp(folder, ".pulsebench-quiet-")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	before, err := FreeBytes(folder)
	if err != nil {
		return err
	}
	shortest := quietMost
	for begun, quiet := time.Now(), 0; quiet < quietLooks && time.Since(begun) < quietMost; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(quietLook):
		}
		free, err := FreeBytes(folder)
		if err != nil {
			return err
		}
		looked := time.Now()
		if _, err := file.WriteAt([]byte{byte(quiet)}, 0); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		took := time.Since(looked)
		shortest = min(shortest, took)
		if quiet++; free > before+quietBytes || took > quietTimes*shortest+quietSlack {
			quiet = 0
		}
		before = free
	}
	return nil
}
