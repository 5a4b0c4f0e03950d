package load

import (
	"context"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
)

// Runner is what sends or reads until it is done, or until ctx ends.
type Runner interface {
	Run(ctx context.Context) error
}

// EndToEnd sends while it reads, and goes on reading until everything acknowledged has been found, or nothing more
// comes.
func EndToEnd(ctx context.Context, sending, reading Runner, l *ledger.Ledger) error {
	return follow(ctx, reading, func(ctx context.Context) error {
		if err := sending.Run(ctx); err != nil {
			return err
		}
		awaitMissing(ctx, l)
		return nil
	})
}
