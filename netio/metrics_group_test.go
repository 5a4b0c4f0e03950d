package netio

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// manyGroups are two shards that share a number of groups; each coordinates half of them.
func manyGroups(groups, partitions int) []ShardSource {
	var shards []ShardSource
	for shard := range 2 {
		s := &ShardSample{Groups: groups / 2, GroupMembers: groups / 2 * 3, Partitions: samplePartitions(10, partitions/20, func(i int) string { return fmt.Sprint("t", shard, "-", i) })}
		for i := range min(groups, groupSeriesMax) {
			s.Lags = append(s.Lags, GroupLagSample{Group: fmt.Sprintf("group-%05d", i), Partitions: 2, Records: int64(10 + shard), Nanos: int64(shard+1) * 3e9})
		}
		for i := shard; i < groups && len(s.Members) < groupSeriesMax; i += 2 {
			s.Members = append(s.Members, GroupMembersSample{fmt.Sprintf("group-%05d", i), 3})
		}
		if rest := groups - groupSeriesMax; rest > 0 {
			s.LagOthers = GroupLagSample{Partitions: rest * 2, Records: int64(rest * (10 + shard)), Nanos: 60e9}
		}
		shards = append(shards, fixedShard{s})
	}
	return shards
}

// What is known of a group is summed over shards, and the series are bounded however many
// groups there are: what has none of its own is in the sum of the others.
func TestGroupSeriesAreBounded(t *testing.T) {
	for _, groups := range []int{1_000, 1_500, 50_000} {
		m := NewMetrics(MetricsOptions{Node: fixedNode{}, PerTopic: true, Shards: manyGroups(groups, 10_000)})
		var page bytes.Buffer
		if err := m.Write(&page); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		rest := groups - groupSeriesMax
		for _, name := range []string{"size", "partitions", "lag_records", "lag_seconds"} {
			if n := strings.Count(text, "\npulsemq_group_"+name+"{group="); n != groupSeriesMax+min(rest, 1) {
				t.Errorf("%d groups have %d series of %s", groups, n, name)
			}
		}
		lines := []string{
			`pulsemq_group_size{group="group-00007"} 3`, `pulsemq_group_partitions{group="group-00007"} 4`,
			`pulsemq_group_lag_records{group="group-00007"} 21`, `pulsemq_group_lag_seconds{group="group-00007"} 6`, fmt.Sprint(`pulsemq_groups_without_series `, rest),
		}
		if rest > 0 {
			lines = append(lines, fmt.Sprint(`pulsemq_group_size{group="(others)"} `, rest*3), fmt.Sprint(`pulsemq_group_partitions{group="(others)"} `, rest*4),
				fmt.Sprint(`pulsemq_group_lag_records{group="(others)"} `, rest*21), `pulsemq_group_lag_seconds{group="(others)"} 60`)
		}
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("%d groups: the page has no line %s", groups, line)
			}
		}
		m.options.PerTopic = false
		page.Reset()
		if err := m.Write(&page); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page.String(), "group=") {
			t.Error("groups are shown although series of single topics are not wanted")
		}
	}
}

// A queue group has series of its own, summed over shards, and a stream group has none of them.
func TestQueueSeries(t *testing.T) {
	shard := func(id int) ShardSource {
		return fixedShard{&ShardSample{
			Queue: QueueCountsSample{Delivered: 100, Redelivered: 7, Acked: 90, Nacked: 5, TimedOut: 2, Dying: 3, Dead: 1, Trimmed: 4}, Buried: 3, BurialsFailed: 6,
			Lags: []GroupLagSample{{Group: "mails", Records: 5}, {Group: "stream", Records: 6}},
			Queues: []GroupQueueSample{{Group: "mails", Windows: 2, WindowsFull: id, Records: 10, Leased: 4, Delayed: 3, DyingNow: 2, DeadNow: 1,
				QueueCountsSample: QueueCountsSample{Delivered: 50, Redelivered: 5, Acked: 40}}},
			QueueOthers: GroupQueueSample{},
		}}
	}
	m := NewMetrics(MetricsOptions{Node: fixedNode{}, PerTopic: true, Shards: []ShardSource{shard(0), shard(1)}})
	var page bytes.Buffer
	if err := m.Write(&page); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`pulsemq_queue_delivered_total{shard="0"} 100`, `pulsemq_queue_redelivered_total{shard="0"} 7`, `pulsemq_queue_acked_total{shard="0"} 90`,
		`pulsemq_queue_nacked_total{shard="0"} 5`, `pulsemq_queue_timed_out_total{shard="0"} 2`, `pulsemq_queue_dying_total{shard="0"} 3`,
		`pulsemq_queue_dead_total{shard="0"} 1`, `pulsemq_queue_trimmed_total{shard="0"} 4`, `pulsemq_dead_letters_total{shard="0"} 3`, `pulsemq_dead_letter_failures_total{shard="0"} 6`,
		`pulsemq_group_queue_delivered_total{group="mails"} 100`, `pulsemq_group_queue_redelivered_total{group="mails"} 10`, `pulsemq_group_queue_acked_total{group="mails"} 80`,
		`pulsemq_group_queue_window_records{group="mails"} 20`, `pulsemq_group_queue_windows_full{group="mails"} 1`, `pulsemq_group_queue_leased_records{group="mails"} 8`,
		`pulsemq_group_queue_delayed_records{group="mails"} 6`, `pulsemq_group_queue_dying_records{group="mails"} 4`, `pulsemq_group_queue_dead_records{group="mails"} 2`,
		`pulsemq_group_lag_records{group="stream"} 12`,
	} {
		if !strings.Contains(page.String(), "\n"+line+"\n") {
			t.Errorf("the page has no line %s", line)
		}
	}
	if strings.Contains(page.String(), `_queue_leased_records{group="stream"}`) {
		t.Error("a stream group has series of a queue group")
	}
}

func BenchmarkMetricsPageOfGroups(b *testing.B) {
	m := NewMetrics(MetricsOptions{PerTopic: true, Shards: manyGroups(1_000, 10_000)})
	for b.Loop() {
		if err := m.Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
