package segment

import (
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

// writeAgainBytes is how much is read and written at a time.
const writeAgainBytes = 1 << 20

// writeAgain writes what a file holds in a range to the same place, so that the next
// sync covers it.
//
// A start finds frames of which nothing says that they were ever synced. When their
// sync failed, the system may have marked them as written and go on showing them from
// its cache: another sync, of another process, would then report as safe what the disk
// never took. The same bytes in the same place harm nothing if they were there.
func writeAgain(f core.File, from, to int64) error {
	from, to = from&^(core.DiskAlignment-1), alignUp(to)
	size, err := f.Size()
	if err != nil {
		return err
	}
	to = min(to, size&^(core.DiskAlignment-1))
	if from >= to {
		return nil
	}
	b := core.HeapSlabs{}.Get(int(min(writeAgainBytes, to-from))).Bytes
	for at := from; at < to; {
		part := b[:min(int64(len(b)), to-at)]
		if n, err := f.ReadAt(part, at); n < len(part) {
			return fmt.Errorf("read what is not known to be synced, to write it again: %w", err)
		}
		if _, err := f.WriteAt(part, at); err != nil {
			return fmt.Errorf("write again what is not known to be synced: %w", err)
		}
		at += int64(len(part))
	}
	return nil
}
