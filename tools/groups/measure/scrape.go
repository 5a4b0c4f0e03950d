package measure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// Scrape has many groups commit to many partitions, and measures the page of metrics.
type Scrape struct {
	Partitions, Groups int
	Each               int // partitions that a group has committed to
	Pages              int // to fetch, one a second
}

const (
	scrapeTopic = "t"
	scrapeSide  = 16 // groups that commit at one time
)

// Run measures on a broker that has no topic yet. It returns how long the slowest page took.
func (s *Scrape) Run(ctx context.Context, b *Broker, say Say) (worst time.Duration, err error) {
	client, err := b.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if _, err := client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: scrapeTopic, Partitions: uint32(s.Partitions)}); err != nil {
		return 0, err
	}
	if err := s.fill(ctx, client); err != nil {
		return 0, err
	}
	err = each(ctx, scrapeSide, s.Groups, func(i int) error {
		offsets := make(map[uint32]int64, s.Each)
		for k := range s.Each {
			offsets[uint32((i*s.Each+k)%s.Partitions)] = 0
		}
		return client.Admin().SeekGroup(ctx, fmt.Sprintf("group-%05d", i), scrapeTopic, offsets, false)
	})
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	var bytes, series, groups int
	lag := 0.0
	for i := range s.Pages {
		began := time.Now()
		page, err := b.Page(ctx, "/metrics")
		if err != nil {
			return 0, err
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
		if i == s.Pages-1 {
			break
		}
		select {
		case <-time.After(1100 * time.Millisecond): // a page a second is made anew; earlier it is the same
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	slices.Sort(took)
	say("%d partitions, %d groups that have committed to %d each: a page of %.1f MB, %d series, %d of lag, which is %.0f records together; fetched in p50 %v max %v",
		s.Partitions, s.Groups, s.Each, float64(bytes)/1e6, series, groups, lag, took[len(took)/2].Round(100*time.Microsecond), took[len(took)-1].Round(100*time.Microsecond))
	if want := float64(s.Groups * s.Each); lag != want {
		return 0, fmt.Errorf("the lag is %.0f records, want %.0f", lag, want)
	}
	return took[len(took)-1], nil
}

// fill sends one record to each partition.
func (s *Scrape) fill(ctx context.Context, client *pulsemq.Client) error {
	producer, err := client.NewProducer()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed error
	for i := range s.Partitions {
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
