package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// scrape has many groups commit to many partitions, and measures the page of metrics.
type scrape struct {
	partitions, groups, each, pages int
	timeMax                         time.Duration
}

func (s *scrape) flags(set *flag.FlagSet) {
	set.IntVar(&s.partitions, "partitions", 10_000, "partitions of the topic")
	set.IntVar(&s.groups, "groups", 1_000, "groups that read it")
	set.IntVar(&s.each, "each", 100, "partitions that a group has committed to")
	set.IntVar(&s.pages, "pages", 10, "pages to fetch, one a second")
	set.DurationVar(&s.timeMax, "time-max", time.Second, "fail when a page takes longer")
}

func (s *scrape) settings() []string { return nil }

const scrapeTopic = "t"

func (s *scrape) measure(ctx context.Context, b *bench) error {
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: scrapeTopic, Partitions: uint32(s.partitions)}); err != nil {
		return err
	}
	if err := s.fill(ctx, client); err != nil {
		return err
	}
	side := &lives{side: 16}
	err = side.each(ctx, s.groups, func(i int) error {
		offsets := make(map[uint32]int64, s.each)
		for k := range s.each {
			offsets[uint32((i*s.each+k)%s.partitions)] = 0
		}
		return client.Admin().SeekGroup(ctx, fmt.Sprintf("group-%05d", i), scrapeTopic, offsets, false)
	})
	if err != nil {
		return err
	}
	var took []time.Duration
	var bytes, series, groups int
	lag := 0.0
	for i := range s.pages {
		began := time.Now()
		page, err := b.page(ctx, "/metrics")
		if err != nil {
			return err
		}
		took = append(took, time.Since(began))
		bytes, series, groups = len(page), 0, 0
		for line := range strings.Lines(string(page)) {
			if !strings.HasPrefix(line, "#") {
				series++
			}
			if strings.HasPrefix(line, "pulsemq_group_lag_records{") {
				groups++
			}
		}
		lag = page.sum("pulsemq_group_lag_records")
		if i == s.pages-1 {
			break
		}
		select {
		case <-time.After(1100 * time.Millisecond): // a page a second is made anew; earlier it is the same
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	slices.Sort(took)
	b.print("%d partitions, %d groups that have committed to %d each: a page of %.1f MB, %d series, %d of lag, which is %.0f records together; fetched in p50 %v max %v",
		s.partitions, s.groups, s.each, float64(bytes)/1e6, series, groups, lag, took[len(took)/2].Round(100*time.Microsecond), took[len(took)-1].Round(100*time.Microsecond))
	if want := float64(s.groups * s.each); lag != want {
		return fmt.Errorf("the lag is %.0f records, want %.0f", lag, want)
	}
	if last := took[len(took)-1]; last > s.timeMax {
		return fmt.Errorf("a page took %v, allowed are %v", last, s.timeMax)
	}
	return nil
}

// fill sends one record to each partition.
func (s *scrape) fill(ctx context.Context, client *pulsemq.Client) error {
	producer, err := client.NewProducer()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed error
	for i := range s.partitions {
		message := &pulsemq.Message{Topic: scrapeTopic, Partition: pulsemq.PartitionNumber(uint32(i)), Value: []byte("x")}
		err := producer.SendAsync(ctx, message, func(_ pulsemq.Result, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
		})
		if err != nil {
			return err
		}
	}
	if err := producer.Close(ctx); err != nil {
		return err
	}
	return failed
}
