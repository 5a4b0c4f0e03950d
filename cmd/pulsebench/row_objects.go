package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

// objectsMost is how many heap objects a request may cost.
const objectsMost = 0.01

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
	// What is allocated once, for a connection, a topic or the first use of a thing, is no cost of a request: it
	// weighs less the longer a run is, and the warm-up takes most of it.
	if err := t.fill(ctx, broker, tailBytes); err != nil {
		return err
	}
	sides := []struct {
		name string
		args []string
	}{
		{"produce, single messages", with(singleArgs, "--durability=sync", "--duration="+t.duration.String())},
		{"produce, batches of 1000", with(batchArgs, "--durability=sync", "--duration="+t.duration.String())},
		{"fetch", []string{"consume", "--topic=" + fetchTopic}},
	}
	for _, s := range sides {
		row.Commands = append(row.Commands, again(s.args))
		var values []float64
		for i := range t.runs {
			a, err := t.allocated(ctx, broker, s.args)
			if err != nil {
				return err
			}
			if a.requests == 0 {
				return fmt.Errorf("%s: the broker has counted no request", s.name)
			}
			values = append(values, a.objects/a.requests)
			t.progress(row, i, "%s: %.0f objects for %.0f requests", s.name, a.objects, a.requests)
		}
		row.Add(s.name, report.UnitObjects, values, report.AtMost(objectsMost))
	}
	return errors.Join(t.forget(ctx, broker), broker.Stop())
}

// allocated measures one side, less what reading the metrics page itself allocates.
func (t *table) allocated(ctx context.Context, broker *host.Server, args []string) (allocation, error) {
	var pages [3]host.Page
	var err error
	for i := range 2 { // twice without load: what a page costs
		if pages[i], err = host.ReadPage(ctx, broker.Admin); err != nil {
			return allocation{}, err
		}
	}
	if _, there := pages[0][objectsSeries]; !there {
		return allocation{}, fmt.Errorf("the broker's metrics page has no %s", objectsSeries)
	}
	w, err := t.workload(append(args[:len(args):len(args)], "--brokers", broker.Address))
	if err != nil {
		return allocation{}, err
	}
	if args[0] == "produce" {
		w.topic = t.newTopic()
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
	if err == nil {
		pages[2], err = host.ReadPage(ctx, broker.Admin)
	}
	if r.topic.Created {
		err = errors.Join(err, r.topic.Delete(context.WithoutCancel(ctx), w.brokers, core.Version))
	}
	if err != nil {
		return allocation{}, err
	}
	page := pages[1][objectsSeries] - pages[0][objectsSeries]
	return allocation{objects: pages[2][objectsSeries] - pages[1][objectsSeries] - page, requests: pages[2][framesSeries] - pages[1][framesSeries]}, nil
}
