package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/tools/groups/measure"
)

// rebalance holds one who joins and one who leaves against bounds.
type rebalance struct {
	measure.Rebalance
	settleMax, pauseMax time.Duration
}

func (r *rebalance) flags(set *flag.FlagSet) {
	set.IntVar(&r.Members, "members", 200, "members of the group")
	set.IntVar(&r.Partitions, "partitions", 1_000, "partitions that they read")
	set.IntVar(&r.Rounds, "rounds", 5, "how often one joins and one leaves")
	set.DurationVar(&r.Every, "every", 200*time.Millisecond, "between two records of a partition")
	set.DurationVar(&r.Quiet, "quiet", 5*time.Second, "how long to watch a group at rest first")
	set.DurationVar(&r.settleMax, "settle-max", 2*time.Second, "fail when the group takes longer to settle")
	set.DurationVar(&r.pauseMax, "pause-max", 100*time.Millisecond, "fail when a partition that stays pauses for longer")
}

func (r *rebalance) settings() []string { return nil }

func (r *rebalance) measure(ctx context.Context, b *measure.Broker, say measure.Say) error {
	changes, err := r.Run(ctx, b, say)
	for _, c := range changes {
		if c.Settled > r.settleMax {
			err = errors.Join(err, fmt.Errorf("%s: settled in %v, allowed are %v", c.What, c.Settled, r.settleMax))
		}
		if c.Stayed > r.pauseMax {
			err = errors.Join(err, fmt.Errorf("%s: a partition that stayed paused for %v, allowed are %v", c.What, c.Stayed, r.pauseMax))
		}
	}
	return err
}
