package netio

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/operations/metrics.md anew")

const metricsDoc = "../docs/operations/metrics.md"

// The reference of the metrics is what the page says about itself.
func TestMetricsAreDocumented(t *testing.T) {
	c := newCluster(t, testConfig(t), 1, 1)
	m := NewMetrics(MetricsOptions{Server: c.server, Node: fixedNode{}, PerTopic: true, Shards: []ShardSource{
		fixedShard{&ShardSample{Partitions: samplePartitions(1, 1, func(int) string { return "t" }), Members: []GroupMembersSample{{"g", 1}},
			Queues: []GroupQueueSample{{Group: "g", Windows: 1}}}},
	}})
	var page bytes.Buffer
	if err := m.Write(&page); err != nil {
		t.Fatal(err)
	}
	var doc strings.Builder
	doc.WriteString("# Metrics\n\nEvery series of the broker's own on `/metrics`. Counters count since the start of the process; labels are in the page.\n" +
		"Series of the Go runtime (`go_...`) and of the process (`process_...`) come with them.\n\n| name | type | meaning |\n|---|---|---|\n")
	name, help := "", ""
	for lines := bufio.NewScanner(&page); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "# HELP "); ok {
			name, help, _ = strings.Cut(text, " ")
		} else if text, ok := strings.CutPrefix(lines.Text(), "# TYPE "+name+" "); ok && strings.HasPrefix(name, "pulsemq_") {
			fmt.Fprintf(&doc, "| `%s` | %s | %s |\n", name, text, help)
		}
	}
	doc.WriteString("\nWritten by `go test ./netio -run TestMetricsAreDocumented -update`.\n")
	if *update {
		if err := os.WriteFile(metricsDoc, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricsDoc)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != doc.String() {
		t.Error("docs/operations/metrics.md does not say what the page shows; run this test with -update")
	}
}
