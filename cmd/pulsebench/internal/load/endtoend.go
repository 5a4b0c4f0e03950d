package load

import (
	"context"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
)

// EndToEnd sends while it reads, and goes on reading until everything acknowledged has been found, or nothing more
// comes.
func EndToEnd(ctx context.Context, sending *Sending, reading *Reading, l *ledger.Ledger) error {
	return follow(ctx, reading, func(ctx context.Context) error {
		if err := sending.Run(ctx); err != nil {
			return err
		}
		awaitMissing(ctx, l)
		return nil
	})
}
