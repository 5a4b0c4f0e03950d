package netio

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// The lag of groups is summed over shards, and the series are bounded however many groups there are.
func TestGroupLagSeriesAreBounded(t *testing.T) {
	c := newCluster(t, testConfig(t), 1, 1)
	var shards []ShardSource
	for shard := range 2 {
		s := &ShardSample{Partitions: samplePartitions(5_000, 5_000, func(int) string { return "t" })}
		for i := range groupSeriesMax + 500 {
			s.Lags = append(s.Lags, GroupLagSample{Group: fmt.Sprintf("group-%04d", i), Partitions: 2, Records: int64(10 + shard), Nanos: int64(shard+1) * 3e9})
		}
		shards = append(shards, fixedShard{s})
	}
	m := NewMetrics(MetricsOptions{Server: c.server, Node: fixedNode{}, PerTopic: true, Shards: shards})
	var page bytes.Buffer
	if err := m.Write(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, "\npulsemq_group_lag_records{"); n != groupSeriesMax+1 {
		t.Errorf("%d series of lag, want %d and the others", n, groupSeriesMax)
	}
	for _, line := range []string{
		`pulsemq_group_lag_records{group="group-0007"} 21`, `pulsemq_group_lag_seconds{group="group-0007"} 6`, `pulsemq_group_partitions{group="group-0007"} 4`,
		`pulsemq_group_lag_records{group="(others)"} 10500`, `pulsemq_groups_without_series 500`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the page has no line %s", line)
		}
	}
}
