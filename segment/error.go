package segment

import (
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

var (
	// ErrStoreBusy reports that a bounded queue of the store is full: try again at a later turn.
	ErrStoreBusy = errors.New("storage: queues are full, try again")
	// ErrLogFailed reports a partition that lost a write or a sync and has not yet
	// returned to its durable point. It is retriable.
	ErrLogFailed = errors.New("storage: a write of this partition failed")
	// ErrLogDropped reports a partition that was deleted.
	ErrLogDropped = errors.New("storage: the partition was deleted")
	// ErrStoreStopping reports an append after Stop.
	ErrStoreStopping = errors.New("storage: stopping")
	// ErrEntryTooLarge reports an entry that fits no slab with its room and padding.
	ErrEntryTooLarge = errors.New("storage: batch too large")
	// ErrStateMissing reports a partition without a usable state whose log does not
	// reach back to its first frame: it refuses service instead of starting empty.
	ErrStateMissing = errors.New("storage: no usable .state file, and the log does not begin with its first frame")
	// ErrFrameNonsense reports frames with good checksums that cannot be of one log.
	ErrFrameNonsense = errors.New("storage: frames do not fit together")
	// ErrTermsSpent reports a partition whose files name a term or generation behind which
	// none is left: they are not what any broker wrote.
	ErrTermsSpent = errors.New("storage: no term or generation is left")
	// ErrLayout reports a data folder whose meta/ does not fit what is in it.
	ErrLayout = errors.New("data folder")
	// ErrJournalFailed reports a journal write or sync that failed: the process must end.
	ErrJournalFailed = errors.New("journal: write or sync failed")
)

// CorruptError reports records that the disk does not hold any more. What lies
// before Start and from Next on stays readable.
type CorruptError struct {
	Start core.Offset
	Next  core.Offset // half open: [Start, Next)
	Cause error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("offsets [%d, %d) are damaged: %v", e.Start, e.Next, e.Cause)
}

// Unwrap gives the cause.
func (e *CorruptError) Unwrap() error { return e.Cause }

// RangeError reports a read outside [Start, End).
type RangeError struct {
	Offset, Start, End core.Offset
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("offset %d is out of range: the log holds [%d, %d)", e.Offset, e.Start, e.End)
}
