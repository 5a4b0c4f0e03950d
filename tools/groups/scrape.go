package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/tools/groups/measure"
)

// scrape holds the slowest page of metrics against a bound.
type scrape struct {
	measure.Scrape
	timeMax time.Duration
}

func (s *scrape) flags(set *flag.FlagSet) {
	set.IntVar(&s.Partitions, "partitions", 10_000, "partitions of the topic")
	set.IntVar(&s.Groups, "groups", 1_000, "groups that read it")
	set.IntVar(&s.Each, "each", 100, "partitions that a group has committed to")
	set.IntVar(&s.Pages, "pages", 10, "pages to fetch, one a second")
	set.DurationVar(&s.timeMax, "time-max", time.Second, "fail when a page takes longer")
}

func (s *scrape) settings() []string { return nil }

func (s *scrape) measure(ctx context.Context, b *measure.Broker, say measure.Say) error {
	worst, err := s.Run(ctx, b, say)
	if err == nil && worst > s.timeMax {
		err = fmt.Errorf("a page took %v, allowed are %v", worst, s.timeMax)
	}
	return err
}
