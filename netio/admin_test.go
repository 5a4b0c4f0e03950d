package netio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// fixedShard always shows the same picture.
type fixedShard struct{ sample *ShardSample }

func (f fixedShard) ShardSample() *ShardSample { return f.sample }

type fixedNode struct{}

func (fixedNode) NodeSample() NodeSample { return NodeSample{MemoryLimitBytes: 1 << 30} }

var seriesLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",? ?)*\})? (\S+)$`)

// parsePage checks a page and returns its series. Families of this broker come
// with their type, all in one place, no series twice.
func parsePage(t *testing.T, b []byte) map[string]float64 {
	t.Helper()
	series := make(map[string]float64)
	done := make(map[string]bool)
	current := ""
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			current, _, _ = strings.Cut(name, " ")
			if done[current] {
				t.Fatalf("family %s is in two places", current)
			}
			done[current] = true
			continue
		}
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		m := seriesLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a series: %q", line)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatalf("not a value: %q", line)
		}
		if strings.HasPrefix(m[1], "pulsemq_") && !strings.HasPrefix(m[1], "pulsemq_admin_") && !strings.HasPrefix(m[1], current) {
			t.Fatalf("series %s is in family %s", m[1], current)
		}
		if _, twice := series[m[1]+m[2]]; twice {
			t.Fatalf("series %s%s is there twice", m[1], m[2])
		}
		series[m[1]+m[2]] = value
	}
	return series
}

func samplePartitions(topics, partitions int, name func(int) string) []PartitionSample {
	var list []PartitionSample
	for i := range topics {
		for n := range partitions {
			list = append(list, PartitionSample{
				Topic: name(i), Number: core.PartitionNumber(n), MessagesIn: 2, BytesIn: 20, MessagesOut: 3, BytesOut: 30,
				HighWatermark: 2, LogEndOffset: 2, SizeBytes: 100, Producers: 1,
			})
		}
	}
	return list
}

// The page is valid whatever topics are called.
func TestMetricsPageIsValid(t *testing.T) {
	names := []string{"../x", "a/b", "nul\x00", "", "line\nbreak", `quo"te\`, "\u202eright to left", "\xff\xfe", strings.Repeat("long", 1000), `a"} 1` + "\nother 2"}
	write := newLatency()
	_ = write.RecordValue(5e6)
	m := NewMetrics(MetricsOptions{
		PerTopic: true, Node: fixedNode{},
		Shards: []ShardSource{
			fixedShard{&ShardSample{Shard: 0, MessagesIn: 7, Write: write, Storage: StorageSample{JournalBytes: 300, SegmentBytes: 100, AppendBytes: 200, RiskNanos: 5e8}, Partitions: samplePartitions(len(names), 2, func(i int) string { return names[i] })}},
			fixedShard{&ShardSample{Shard: 1, MessagesIn: 9}},
			fixedShard{nil},
		},
	})
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	series := parsePage(t, b.Bytes())
	for name, want := range map[string]float64{
		`pulsemq_messages_produced_total{shard="0"}`:               7,
		`pulsemq_messages_produced_total{shard="1"}`:               9,
		`pulsemq_write_amplification{shard="0"}`:                   2,
		`pulsemq_at_risk_seconds{shard="0"}`:                       0.5,
		`pulsemq_topic_size_bytes{topic="../x"}`:                   200,
		`pulsemq_topic_messages_produced_total{topic="quo\"te\\"}`: 4,
		`pulsemq_partition_size_bytes{topic="a/b",partition="1"}`:  100,
		`pulsemq_partitions`:                                       20,
		`pulsemq_memory_limit_bytes`:                               1 << 30,
		`pulsemq_latency_seconds_count{stage="write"}`:             1,
	} {
		if got, ok := series[name]; !ok || got != want {
			t.Errorf("%s = %v (%v), want %v", name, got, ok, want)
		}
	}
	if p99 := series[`pulsemq_latency_seconds{stage="write",quantile="0.99"}`]; p99 < 0.0049 || p99 > 0.0051 {
		t.Errorf("p99 is %v", p99)
	}
	if _, ok := series["process_resident_memory_bytes"]; !ok {
		t.Error("the process is not shown")
	}
}

// However many topics and partitions there are, the page is bounded, and what has
// no series of its own is in the sums.
func TestMetricsPageIsBounded(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("t%06d", i) }
	m := NewMetrics(MetricsOptions{PerTopic: true, Shards: []ShardSource{
		fixedShard{&ShardSample{Partitions: samplePartitions(1500, 10, name)}},
	}})
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	series := parsePage(t, b.Bytes())
	topics, partitions := 0, 0
	for name := range series {
		if strings.HasPrefix(name, "pulsemq_topic_size_bytes{") {
			topics++
		}
		if strings.HasPrefix(name, "pulsemq_partition_size_bytes{") {
			partitions++
		}
	}
	if topics != topicSeriesMax+1 || partitions != partitionSeriesMax {
		t.Errorf("%d topics and %d partitions have series", topics, partitions)
	}
	if got := series[`pulsemq_topic_size_bytes{topic="(others)"}`]; got != 500*10*100 {
		t.Errorf("the others have %v bytes", got)
	}
	if got := series[`pulsemq_partitions_without_series`]; got != 5000 {
		t.Errorf("%v partitions have no series, want 5000", got)
	}
	m.options.PerTopic = false
	b.Reset()
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b.Bytes(), []byte("topic=")) {
		t.Error("topics are shown although they are not wanted")
	}
}

func BenchmarkMetricsPage(b *testing.B) {
	m := NewMetrics(MetricsOptions{PerTopic: true, Shards: []ShardSource{
		fixedShard{&ShardSample{Partitions: samplePartitions(10, 1000, func(i int) string { return fmt.Sprint("topic", i) })}},
	}})
	for b.Loop() {
		if err := m.Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// Quantiles speak of the last minutes, counts of the whole time.
func TestLatencyWindow(t *testing.T) {
	var l latencies
	h := newLatency()
	now := time.Unix(1000, 0)
	at := func() (p50, count float64) {
		p := newPage()
		l.write(p, "x", now, h, nil)
		var b bytes.Buffer
		if err := p.write(&b); err != nil {
			t.Fatal(err)
		}
		series := parsePage(t, b.Bytes())
		return series[`pulsemq_latency_seconds{stage="x",quantile="0.5"}`], series[`pulsemq_latency_seconds_count{stage="x"}`]
	}
	for range 100 {
		_ = h.RecordValue(1e9)
	}
	if p50, count := at(); p50 < 0.9 || count != 100 {
		t.Fatalf("p50 %v of %v", p50, count)
	}
	for range 3 {
		now = now.Add(latencyWindow)
		at()
	}
	for range 10 {
		_ = h.RecordValue(1e6)
	}
	if p50, count := at(); p50 > 0.002 || count != 110 {
		t.Fatalf("p50 %v of %v: old values still count", p50, count)
	}
}

// adminPort starts an admin port on a free port.
func adminPort(t *testing.T, o AdminOptions) string {
	t.Helper()
	o.Config.Host = "127.0.0.1"
	o.Log = slog.New(slog.DiscardHandler)
	if o.Metrics == nil {
		o.Metrics = NewMetrics(MetricsOptions{})
	}
	if o.Health == nil {
		o.Health = NewHealth()
	}
	a := NewAdmin(o)
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + a.Address().String()
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, b
}

func TestHealth(t *testing.T) {
	sick := errors.New("a shard stands still")
	var problem error
	health := NewHealth(func() error { return problem })
	url := adminPort(t, AdminOptions{Health: health})
	if status, _ := get(t, url+"/healthz"); status != 200 {
		t.Errorf("alive: %d", status)
	}
	status, b := get(t, url+"/readyz")
	var p Progress
	if err := json.Unmarshal(b, &p); err != nil || status != 503 || p.Ready || p.Stage != "starting" {
		t.Errorf("at the start: %d %s", status, b)
	}
	health.SetProgress(Progress{Stage: "opening partitions", PartitionsDone: 3, PartitionsTotal: 10})
	if status, b := get(t, url+"/readyz"); status != 503 || !strings.Contains(string(b), `"partitions_done":3`) {
		t.Errorf("under way: %d %s", status, b)
	}
	health.SetProgress(Progress{Ready: true, Stage: "serving"})
	if status, _ := get(t, url+"/readyz"); status != 200 {
		t.Errorf("ready: %d", status)
	}
	problem = sick
	if status, b := get(t, url+"/healthz"); status != 503 || !strings.Contains(string(b), sick.Error()) {
		t.Errorf("sick: %d %s", status, b)
	}
}

func TestAdminPaths(t *testing.T) {
	closed, open := adminPort(t, AdminOptions{Settings: []core.ConfigValue{{Name: "broker.shards", Value: "7"}}}), adminPort(t, AdminOptions{Config: core.AdminConfig{Pprof: true}})
	for _, x := range []struct {
		url    string
		status int
		want   string
	}{
		{closed + "/", 200, "/metrics"},
		{closed + "/version", 200, core.Version},
		{closed + "/config", 200, `"broker.shards":"7"`},
		{closed + "/none", 404, ""},
		{closed + "/debug/pprof/", 404, ""},
		{open + "/debug/pprof/", 200, "goroutine"},
		{open + "/metrics", 200, "pulsemq_info"},
	} {
		status, b := get(t, x.url)
		if status != x.status || !strings.Contains(string(b), x.want) {
			t.Errorf("%s: %d %.200s", x.url, status, b)
		}
	}
	response, err := http.Post(closed+"/metrics", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", response.StatusCode)
	}
}

func TestAdminListenError(t *testing.T) {
	url := adminPort(t, AdminOptions{})
	port, _ := strconv.Atoi(url[strings.LastIndex(url, ":")+1:])
	a := NewAdmin(AdminOptions{Config: core.AdminConfig{Host: "127.0.0.1", Port: port}, Metrics: NewMetrics(MetricsOptions{}), Health: NewHealth(), Log: slog.New(slog.DiscardHandler)})
	if err := a.Start(); err == nil || !strings.Contains(err.Error(), "admin.port") {
		t.Fatalf("got %v, want an error that names admin.port", err)
	}
}

// The page shows what the reactors did up to now, failures by code among it.
func TestMetricsOfServer(t *testing.T) {
	c := newCluster(t, testConfig(t), 2, 1)
	health := NewHealth(c.server.Alive)
	url := adminPort(t, AdminOptions{Metrics: NewMetrics(MetricsOptions{Server: c.server}), Health: health})
	cl := c.connect(t)
	for range 3 {
		decode(t, []frame{cl.ask(produce(0, testBatch(t, 5, 10)))}, &proto.ProduceResponse{})
	}
	decode(t, []frame{cl.ask(fetch(0, 0))}, &proto.FetchResponse{})
	id := cl.send(fetch(70, 0))
	wantError(t, []frame{cl.read()}, id, proto.CodeInvalidPartition)
	_, b := get(t, url+"/metrics")
	series := parsePage(t, b)
	for name, want := range map[string]float64{
		`pulsemq_connections`:                                      1,
		`pulsemq_connections_opened_total`:                         1,
		`pulsemq_producers`:                                        1,
		`pulsemq_consumers`:                                        1,
		`pulsemq_frames_received_total`:                            6,
		`pulsemq_request_failures_total{code="INVALID_PARTITION"}`: 1,
		`pulsemq_request_failures_total{code="INTERNAL"}`:          0,
		`pulsemq_latency_seconds_count{stage="produce"}`:           3,
		`pulsemq_latency_seconds_count{stage="fetch"}`:             2,
	} {
		if got, ok := series[name]; !ok || got != want {
			t.Errorf("%s = %v (%v), want %v", name, got, ok, want)
		}
	}
	if status, b := get(t, url+"/healthz"); status != 200 {
		t.Errorf("alive: %d %s", status, b)
	}
}

// Threads tell of their start by themselves; one that is late must not take back
// that the broker serves.
func TestReadyIsFinal(t *testing.T) {
	h := NewHealth()
	h.SetProgress(Progress{Stage: "ready", Ready: true})
	h.SetProgress(Progress{Stage: "listening"})
	if p := h.Progress(); !p.Ready {
		t.Errorf("a late word of the start made the broker unready: %+v", p)
	}
}
