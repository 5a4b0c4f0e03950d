package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// lives has many groups join, read, commit and leave, and then be forgotten: because they are
// deleted, or because their time is over.
type lives struct {
	groups, warm, side int
	expire             time.Duration
	heapMax            int64
	profile            string
}

func (l *lives) flags(set *flag.FlagSet) {
	set.IntVar(&l.groups, "groups", 100_000, "groups that live and die")
	set.IntVar(&l.warm, "warm", 2_000, "groups that do so before the first look, so that what the broker keeps once is there")
	set.IntVar(&l.side, "side", 64, "groups that live side by side")
	set.DurationVar(&l.expire, "expire", 0, "how long offsets are kept, at least 1s; 0: groups are deleted instead")
	set.Int64Var(&l.heapMax, "heap-max", 4<<20, "fail when the heap ends so many bytes above its base")
	set.StringVar(&l.profile, "profile", "", "write a heap profile of the end to this file")
}

func (l *lives) settings() []string {
	if l.expire == 0 {
		return nil
	}
	return []string{"offsets.retention=" + l.expire.String()}
}

const livesTopic = "t"

func (l *lives) measure(ctx context.Context, b *bench) error {
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: livesTopic, Partitions: 1}); err != nil {
		return err
	}
	producer, err := client.NewProducer()
	if err != nil {
		return err
	}
	if _, err := producer.Send(ctx, &pulsemq.Message{Topic: livesTopic, Value: []byte("x")}); err != nil {
		return err
	}
	if err := producer.Close(ctx); err != nil {
		return err
	}
	if err := l.many(ctx, client, "warm", l.warm); err != nil {
		return err
	}
	if err := l.end(ctx, b, client, "warm", l.warm); err != nil {
		return err
	}
	base, err := b.memory(ctx, 0)
	if err != nil {
		return err
	}
	b.print("before: %v", base)
	began := time.Now()
	if err := l.many(ctx, client, "group", l.groups); err != nil {
		return err
	}
	took := time.Since(began)
	alive := l.groups
	if l.expire != 0 {
		alive = -1 // some are gone already
	}
	living, err := b.memory(ctx, alive)
	if err != nil {
		return err
	}
	b.print("%d groups have lived (%v): %v", l.groups, took.Round(time.Millisecond), living)
	began = time.Now()
	if err := l.end(ctx, b, client, "group", l.groups); err != nil {
		return err
	}
	took = time.Since(began)
	after, err := b.memory(ctx, 0)
	if err != nil {
		return err
	}
	b.print("all are gone (%v): %v", took.Round(time.Millisecond), after)
	if l.profile != "" {
		page, err := b.page(ctx, "/debug/pprof/heap?gc=1")
		if err == nil {
			err = os.WriteFile(l.profile, page, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if more := after.heap - base.heap; more > l.heapMax {
		return fmt.Errorf("the heap ends %d bytes above its base, allowed are %d", more, l.heapMax)
	}
	return nil
}

// many lets groups live, some side by side.
func (l *lives) many(ctx context.Context, client *pulsemq.Client, name string, groups int) error {
	return l.each(ctx, groups, func(i int) error {
		g, err := client.NewGroupConsumer(fmt.Sprintf("%s-%06d", name, i), pulsemq.GroupTopics(livesTopic), pulsemq.GroupAutoCommit(0))
		if err != nil {
			return err
		}
		if _, err := g.Poll(ctx); err != nil {
			return errors.Join(err, g.Close(ctx))
		}
		return errors.Join(g.Commit(ctx), g.Close(ctx))
	})
}

// each does something for each number, some side by side, up to the first failure.
func (l *lives) each(ctx context.Context, count int, do func(i int) error) error {
	var all sync.WaitGroup
	numbers, failures := make(chan int), make(chan error, l.side)
	for range l.side {
		all.Go(func() {
			for i := range numbers {
				if err := do(i); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	var failed error
	for i := 0; i < count && failed == nil; i++ {
		select {
		case numbers <- i:
		case failed = <-failures:
		case <-ctx.Done():
			failed = ctx.Err()
		}
	}
	close(numbers)
	all.Wait()
	close(failures)
	for err := range failures {
		failed = errors.Join(failed, err)
	}
	return failed
}

// end deletes the groups, or waits until their time is over.
func (l *lives) end(ctx context.Context, b *bench, client *pulsemq.Client, name string, groups int) error {
	if l.expire == 0 {
		admin := client.Admin()
		return l.each(ctx, groups, func(i int) error {
			for {
				err := admin.DeleteGroup(ctx, fmt.Sprintf("%s-%06d", name, i))
				if !pulsemq.Retriable(err) { // OVERLOADED says to come back
					return err
				}
			}
		})
	}
	for {
		page, err := b.page(ctx, "/metrics")
		if err != nil {
			return err
		}
		left := page.sum("pulsemq_groups")
		if left == 0 {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%v groups are left: %w", left, ctx.Err())
		}
	}
}

// memory is what the broker holds: of resident, payload is what lies in its arenas, which does
// not follow from how many groups there are.
type memory struct {
	heap, resident, payload int64
	groups                  int64
}

func (m memory) String() string {
	return fmt.Sprintf("heap %.1f MiB, resident %.1f MiB, of it payload up to %.1f MiB, %d groups", float64(m.heap)/(1<<20), float64(m.resident)/(1<<20), float64(m.payload)/(1<<20), m.groups)
}

// memory looks at the broker after a collection of its garbage, once a page shows so many groups;
// -1 is any number. Pages are up to a second old.
func (b *bench) memory(ctx context.Context, groups int) (memory, error) {
	for range 2 { // the second frees what the first has finalized
		if _, err := b.page(ctx, "/debug/pprof/heap?gc=1"); err != nil {
			return memory{}, err
		}
	}
	for end := time.Now().Add(30 * time.Second); ; {
		page, err := b.page(ctx, "/metrics")
		if err != nil {
			return memory{}, err
		}
		m := memory{int64(page.sum("go_memstats_heap_alloc_bytes")), int64(page.sum("process_resident_memory_bytes")), int64(page.sum("pulsemq_arena_touched_bytes")), int64(page.sum("pulsemq_groups"))}
		if groups < 0 || m.groups == int64(groups) {
			return m, nil
		}
		if time.Now().After(end) {
			return m, fmt.Errorf("the page shows %d groups, and there are %d", m.groups, groups)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// seriesPage is a page of the operators' port.
type seriesPage []byte

func (b *bench) page(ctx context.Context, path string) (seriesPage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.broker.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return text, err
}

// sum adds up the series of a family.
func (p seriesPage) sum(family string) (sum float64) {
	lines := bufio.NewScanner(strings.NewReader(string(p)))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), family)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err == nil {
			sum += value
		}
	}
	return sum
}
