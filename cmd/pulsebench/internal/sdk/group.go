package sdk

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// What members of groups of both kinds have in common.
const (
	// closeWait is how long members may take to leave their group.
	closeWait = 10 * time.Second

	// stallWait is how long a group may read nothing: members wait for what is not there, as they would for what is to come.
	stallWait  = 30 * time.Second
	stallCheck = 100 * time.Millisecond
)

// seek sets a group to where reading begins.
func seek(ctx context.Context, client *pulsemq.Client, group, topic string, from []int64) error {
	offsets := make(map[uint32]int64)
	for p, offset := range from {
		offsets[uint32(p)] = offset
	}
	return client.Admin().SeekGroup(ctx, group, topic, offsets, false)
}

// watchStall ends a run whose group has not come further for too long.
func watchStall(ctx context.Context, cancel context.CancelCauseFunc, done *atomic.Int64, who string, of int64) {
	ticker := time.NewTicker(stallCheck)
	defer ticker.Stop()
	for last, since := int64(-1), time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n := done.Load(); n != last {
			last, since = n, time.Now()
		} else if time.Since(since) > stallWait {
			cancel(fmt.Errorf("%s has come to %d of %d records, and no further for %v", who, last, of, stallWait))
			return
		}
	}
}
