package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/pulsemq/pulsemq/tools/groups/measure"
)

// lives holds the memory that is left of many groups against a bound.
type lives struct {
	measure.Lives
	heapMax int64
	profile string
}

func (l *lives) flags(set *flag.FlagSet) {
	set.IntVar(&l.Groups, "groups", 100_000, "groups that live and die")
	set.IntVar(&l.Warm, "warm", 2_000, "groups that do so before the first look, so that what the broker keeps once is there")
	set.IntVar(&l.Side, "side", 64, "groups that live side by side")
	set.DurationVar(&l.Expire, "expire", 0, "how long offsets are kept, at least 1s; 0: groups are deleted instead")
	set.Int64Var(&l.heapMax, "heap-max", 4<<20, "fail when the heap ends so many bytes above its base")
	set.StringVar(&l.profile, "profile", "", "write a heap profile of the end to this file")
}

func (l *lives) settings() []string { return l.Settings() }

func (l *lives) measure(ctx context.Context, b *measure.Broker, say measure.Say) error {
	m, err := l.Run(ctx, b, say)
	if err != nil {
		return err
	}
	if l.profile != "" {
		page, err := b.Page(ctx, "/debug/pprof/heap?gc=1")
		if err == nil {
			err = os.WriteFile(l.profile, page, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if more := m.After.Heap - m.Base.Heap; more > l.heapMax {
		return fmt.Errorf("the heap ends %d bytes above its base, allowed are %d", more, l.heapMax)
	}
	return nil
}
