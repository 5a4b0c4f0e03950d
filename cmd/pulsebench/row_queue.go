package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
)

const (
	queueTopic      = "pulsebench-queue"
	queuePartitions = 16
	queueMembers    = 32

	// queuePrefetch is how many messages are leased to a member at a time. A batch is sent to a member as a whole, so that
	// few of them would be many bytes for each message.
	queuePrefetch = 256

	// queueRate is what is offered while it is acknowledged: above the floor, so that what is reached says something.
	queueRate = 150_000

	// queueBatchRecords is how many messages the batches of a log hold that is caught up with: an application's, not a bulk
	// load's.
	queueBatchRecords = 10

	// queueFillShare is which part of a log of records is filled for catching up.
	queueFillShare = 16
)

// queueArgs are the members of a queue group, each message of which is acknowledged on its own.
var queueArgs = []string{"--sdk", "--queue=pulsebench", fmt.Sprintf("--consumers=%d", queueMembers), fmt.Sprintf("--prefetch=%d", queuePrefetch),
	fmt.Sprintf("--partitions=%d", queuePartitions), fmt.Sprintf("--record-size=%d", fetchRecordBytes), "--durability=sync"}

// measureQueue has members acknowledge what is being sent, and what lies there already.
func measureQueue(ctx context.Context, t *table, row *report.Row) error {
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	filled := "--topic=" + queueTopic
	_, err = t.measure(ctx, side{server: broker, keep: true, args: []string{"produce", filled, fmt.Sprintf("--partitions=%d", queuePartitions), "--durability=sync",
		fmt.Sprintf("--record-size=%d", fetchRecordBytes), fmt.Sprintf("--batch-records=%d", queueBatchRecords), "--records=" + number(t.fetchBytes/fetchRecordBytes/queueFillShare)}})
	if err != nil {
		return fmt.Errorf("fill the log: %w", err)
	}
	endToEnd := append(with([]string{"e2e"}, queueArgs...), fmt.Sprintf("--rate=%d", queueRate), "--duration="+t.duration.String())
	catchUp := append(with([]string{"consume"}, queueArgs...), filled)
	row.Commands = append(row.Commands, again(endToEnd), again(catchUp))
	var live, late []*report.Result
	for i := range t.runs {
		result, err := t.measure(ctx, side{server: broker, args: endToEnd})
		if err != nil {
			return err
		}
		live = append(live, result)
		if result, err = t.measure(ctx, side{server: broker, args: catchUp, keep: true}); err != nil {
			return err
		}
		late = append(late, result)
		t.progress(row, i, "%.0f messages/s end to end, %.0f messages/s of a log", live[i].RecordsPerSecond, late[i].RecordsPerSecond)
	}
	row.Add(figureQueue, report.UnitRecords, each(live, func(r *report.Result) float64 { return r.RecordsPerSecond }), floorOf(row.Name, figureQueue))
	latencies(row, live)
	readers(row, live)
	row.Add("catching up", report.UnitRecords, each(late, func(r *report.Result) float64 { return r.RecordsPerSecond }), nil)
	row.Notes = append(row.Notes, fmt.Sprintf("%d records/s were offered; end to end is from the first that was sent to the last acknowledgement on disk, "+
		"and the latency from when a record was due until a member had it", queueRate))
	return errors.Join(t.forget(ctx, broker, queueTopic), broker.Stop())
}
