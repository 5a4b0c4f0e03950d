package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
)

// objectsBatchRecords makes batches that several of fit into a request's answer.
const objectsBatchRecords = 100

// What the metrics page calls them.
const (
	objectsSeries = "pulsemq_heap_objects_total"
	framesSeries  = "pulsemq_frames_received_total"
)

// allocation is what a broker has allocated while requests came.
type allocation struct{ objects, requests float64 }

// measureObjects counts the objects that the whole broker process puts on its heap for each request.
func measureObjects(ctx context.Context, t *table, row *report.Row) error {
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	if broker.Admin == "" {
		return errors.New("the broker's metrics port is not known: give --admin")
	}
	if err := t.fill(ctx, broker, t.fetchBytes, objectsBatchRecords); err != nil {
		return err
	}
	lasts := "--duration=" + t.duration.String()
	sides := []struct {
		name       string
		args, warm []string // warm reaches what is made once: files, and memory up to its limits
	}{
		{figureBatches, with(batchArgs, "--durability=sync", lasts), with(batchArgs, "--durability=sync", "--records="+number(t.fetchBytes/fetchRecordBytes))},
		{figureSingles, with(singleArgs, "--durability=sync", lasts), with(singleArgs, "--durability=sync", lasts)},
		{figureFetch, []string{"consume", "--fetch-size=64KiB"}, []string{"consume", "--fetch-size=64KiB"}},
	}
	topics := []string{t.newTopic(), t.newTopic(), fetchTopic}
	for i, s := range sides {
		row.Commands = append(row.Commands, again(s.args))
		if _, err := t.allocated(ctx, broker, with(s.warm, "--topic="+topics[i])); err != nil {
			return fmt.Errorf("%s: warm up: %w", s.name, err)
		}
	}
	for i, s := range sides {
		var values []float64
		for run := range t.runs {
			a, err := t.allocated(ctx, broker, with(s.args, "--topic="+topics[i]))
			if err != nil {
				return err
			}
			if a.requests == 0 {
				return fmt.Errorf("%s: the broker has counted no request", s.name)
			}
			values = append(values, a.objects/a.requests)
			t.progress(row, run, "%s: %.0f objects for %.0f requests", s.name, a.objects, a.requests)
		}
		row.Add(s.name, report.UnitObjects, values, floorOf(row.Name, s.name))
	}
	// Only now: deleting goes on in the background, and its objects are no request's.
	for _, topic := range topics {
		if err := t.forget(ctx, broker, topic); err != nil {
			return err
		}
	}
	return broker.Stop()
}

// allocated measures one side, less what reading the metrics page itself allocates. It looks once the connections are
// open and again before they are closed: what is allocated once for a connection or a topic is no cost of a request.
func (t *table) allocated(ctx context.Context, broker *host.Server, args []string) (allocation, error) {
	args = append(args[:len(args):len(args)], "--brokers", broker.Address)
	w, err := t.workload(args)
	if err != nil {
		return allocation{}, err
	}
	var before, after host.Page // the next ones are those of reading back
	var cost float64
	var failed error
	w.serverTime = func() time.Duration {
		var err error
		switch {
		case before == nil:
			before, cost, err = pageObjects(ctx, broker)
		case after == nil:
			after, err = host.ReadPage(ctx, broker.Admin)
		}
		failed = errors.Join(failed, err)
		return 0
	}
	r, err := w.open(ctx, t.session)
	if err != nil {
		return allocation{}, err
	}
	run := r.produce
	if args[0] == "consume" {
		run = r.consume
	}
	result, _, err := run(ctx)
	if err == nil {
		err = judge(result)
	}
	if err = errors.Join(err, failed); err != nil {
		return allocation{}, err
	}
	return allocation{objects: max(after[objectsSeries]-before[objectsSeries]-cost, 0), requests: after[framesSeries] - before[framesSeries]}, nil
}

// pagesRead is how often the page is read to learn what that costs.
const pagesRead = 5

// pageObjects reads the metrics page several times, and returns the last one and how many objects reading it puts on the
// heap: the least of all, because a reading after a garbage collection has to make its buffers anew.
func pageObjects(ctx context.Context, broker *host.Server) (last host.Page, cost float64, err error) {
	cost = math.Inf(1)
	for i := range pagesRead {
		page, err := host.ReadPage(ctx, broker.Admin)
		if err != nil {
			return nil, 0, err
		}
		if _, there := page[objectsSeries]; !there {
			return nil, 0, fmt.Errorf("the broker's metrics page has no %s", objectsSeries)
		}
		if i > 0 {
			cost = min(cost, page[objectsSeries]-last[objectsSeries])
		}
		last = page
	}
	return last, cost, nil
}
