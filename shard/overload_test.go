package shard

import (
	"fmt"
	"io"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment"
)

// What passes by itself is no failure of the disk, however deep the store says it.
func TestStorageErrorsByWhatPasses(t *testing.T) {
	for _, c := range []struct {
		err  error
		code proto.Code
	}{
		{segment.ErrStoreBusy, proto.CodeOverloaded},
		{core.ErrDiskFiles, proto.CodeOverloaded},
		{core.ErrDiskFull, proto.CodeStorageFull},
		{segment.ErrStoreStopping, proto.CodeShuttingDown},
		{io.ErrUnexpectedEOF, proto.CodeStorageError},
	} {
		err := storageError(fmt.Errorf("index of topics/a/0/1: %w", fmt.Errorf("open: %w", c.err)))
		if err.Code != c.code {
			t.Errorf("%v is answered %v, want %v", c.err, err.Code, c.code)
		}
	}
}
