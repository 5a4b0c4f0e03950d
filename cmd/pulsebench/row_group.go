package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/tools/groups/measure"
)

const (
	groupTopic      = "pulsebench-group"
	groupPartitions = 128
	groupMembers    = 16

	// The change of a large group: how often one joins and one leaves, how often each partition gets a record, and how long
	// the group is watched at rest first.
	rebalanceRounds = 5
	rebalanceEvery  = 200 * time.Millisecond
	rebalanceQuiet  = 2 * time.Second

	// Groups that live side by side, and as a share of all those that do so before the first look at memory.
	livesSide      = 64
	livesWarmShare = 50
)

// groupArgs are consumers of the Go client that share the partitions. They keep no record beyond the next call of Poll.
var groupArgs = []string{"consume", "--sdk", "--reuse", "--topic=" + groupTopic, fmt.Sprintf("--consumers=%d", groupMembers)}

// measureGroup reads a log through the members of a stream group, and in turns through as many consumers without one.
func measureGroup(ctx context.Context, t *table, row *report.Row) error {
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	_, err = t.measure(ctx, side{server: broker, keep: true, args: []string{"produce", "--topic=" + groupTopic, fmt.Sprintf("--partitions=%d", groupPartitions), "--durability=batch",
		fmt.Sprintf("--record-size=%d", fetchRecordBytes), "--records=" + number(t.fetchBytes/fetchRecordBytes)}})
	if err != nil {
		return fmt.Errorf("fill the log: %w", err)
	}
	args := with(groupArgs, "--group=pulsebench")
	row.Commands = append(row.Commands, again(args))
	var alone, members []*report.Result
	for i := range t.runs {
		for _, s := range []struct {
			args []string
			to   *[]*report.Result
		}{{groupArgs, &alone}, {args, &members}} {
			result, err := t.measure(ctx, side{server: broker, args: s.args, keep: true})
			if err != nil {
				return err
			}
			*s.to = append(*s.to, result)
		}
		t.progress(row, i, "%.0f records/s without a group, %.0f records/s through its members", alone[i].RecordsPerSecond, members[i].RecordsPerSecond)
	}
	row.Add(figureMembers, report.UnitRecords, each(members, func(r *report.Result) float64 { return r.RecordsPerSecond }), floorOf(row.Name, figureMembers))
	row.Add("the same consumers without a group", report.UnitRecords, each(alone, func(r *report.Result) float64 { return r.RecordsPerSecond }), nil)
	row.Add("bytes", report.UnitBytes, each(members, func(r *report.Result) float64 { return r.MegabytesPerSecond }), nil)
	readers(row, members)
	row.Notes = append(row.Notes, "from the first member's JOIN_GROUP to the last record: the group is shared out while it reads; each member commits every second")
	return errors.Join(t.forget(ctx, broker, groupTopic), broker.Stop())
}

// measureRebalance has one member join and leave a large group again and again.
func measureRebalance(ctx context.Context, t *table, row *report.Row) error {
	row.Workload = fmt.Sprintf("stream group, %d members, %s partitions: one joins, one leaves, %d times", t.groupMembers, number(int64(t.groupPartitions)), rebalanceRounds)
	var settled, stayed, moved []float64
	for i := range t.runs {
		load := measure.Rebalance{Members: t.groupMembers, Partitions: t.groupPartitions, Rounds: rebalanceRounds, Every: rebalanceEvery, Quiet: rebalanceQuiet}
		var worst measure.Change
		err := t.onOwnBroker(nil, func(b *measure.Broker) error {
			changes, err := load.Run(ctx, b, t.say)
			for _, c := range changes {
				worst.Settled, worst.Stayed, worst.Moved = max(worst.Settled, c.Settled), max(worst.Stayed, c.Stayed), max(worst.Moved, c.Moved)
			}
			return err
		})
		if err != nil {
			return err
		}
		settled, stayed, moved = append(settled, worst.Settled.Seconds()), append(stayed, millis(worst.Stayed)), append(moved, millis(worst.Moved))
		t.progress(row, i, "settled in %v, records of partitions that stay were %v late", worst.Settled, worst.Stayed)
	}
	row.Commands = append(row.Commands, again([]string{"table", "--rows=" + row.Name, fmt.Sprintf("--group-members=%d", t.groupMembers), fmt.Sprintf("--group-partitions=%d", t.groupPartitions)}))
	row.Add(figureSettled, report.UnitSeconds, settled, floorOf(row.Name, figureSettled))
	row.Add(figurePause, report.UnitMillis, stayed, floorOf(row.Name, figurePause))
	row.Add("latest record of a partition that moves", report.UnitMillis, moved, nil)
	row.Notes = append(row.Notes, "each figure is the worst of a run")
	return nil
}

// measureLives has many groups live and be deleted, and looks at what is left of them.
func measureLives(ctx context.Context, t *table, row *report.Row) error {
	row.Workload = fmt.Sprintf("%s stream groups that join, read, commit, leave and are deleted", number(int64(t.groupLives)))
	var left, living, base, resident []float64
	for i := range t.runs {
		load := measure.Lives{Groups: t.groupLives, Warm: max(t.groupLives/livesWarmShare, 1), Side: livesSide}
		var m *measure.Memories
		// Profiles are what has the broker collect its garbage before it is looked at.
		err := t.onOwnBroker([]string{"--set", "admin.pprof=true"}, func(b *measure.Broker) (err error) {
			m, err = load.Run(ctx, b, t.say)
			return err
		})
		if err != nil {
			return err
		}
		left, living = append(left, megabytes(m.After.Heap-m.Base.Heap)), append(living, megabytes(m.Living.Heap))
		base, resident = append(base, megabytes(m.Base.Heap)), append(resident, megabytes(m.After.Resident))
		t.progress(row, i, "the heap ends %.1f MB above its base of %.1f MB", left[i], base[i])
	}
	row.Commands = append(row.Commands, again([]string{"table", "--rows=" + row.Name, fmt.Sprintf("--group-lives=%d", t.groupLives)}))
	row.Add(figureLeft, report.UnitMemory, left, floorOf(row.Name, figureLeft))
	row.Add("heap before", report.UnitMemory, base, nil)
	row.Add("heap with all of them", report.UnitMemory, living, nil)
	row.Add("resident memory at the end", report.UnitMemory, resident, nil)
	return nil
}

// onOwnBroker measures on a broker that is started with more settings and ends with it.
func (t *table) onOwnBroker(more []string, do func(*measure.Broker) error) error {
	broker, err := host.StartBroker(t.program, t.folder, append(t.brokerArguments(), more...)...)
	if err != nil {
		return err
	}
	defer broker.Destroy()
	return errors.Join(do(&measure.Broker{Address: broker.Address, Admin: broker.Admin}), broker.Stop())
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func megabytes(n int64) float64 { return float64(n) / 1e6 }
