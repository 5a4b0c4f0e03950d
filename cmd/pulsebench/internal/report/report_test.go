package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/proto"
)

func TestPercentilesAreThoseOfTheValues(t *testing.T) {
	h := hdrhistogram.New(1, 600_000_000, 3)
	for i := range int64(100_000) {
		if err := h.RecordValue(i + 1); err != nil { // 1 µs to 100 ms, evenly
			t.Fatal(err)
		}
	}
	l := LatencyOf(h)
	for _, c := range []struct{ got, want float64 }{{l.P50, 50}, {l.P95, 95}, {l.P99, 99}, {l.P999, 99.9}, {l.P9999, 99.99}, {l.Max, 100}} {
		if c.got < c.want*0.999 || c.got > c.want*1.001 {
			t.Errorf("%v ms, want %v", c.got, c.want)
		}
	}
	if l.Count != 100_000 {
		t.Errorf("%d values", l.Count)
	}
	if LatencyOf(hdrhistogram.New(1, 10, 3)) != nil || LatencyOf(nil) != nil {
		t.Error("nothing measured has a latency")
	}
}

// Scripts read these names.
func TestJSONKeepsItsContract(t *testing.T) {
	r := Result{Latency: &Latency{}}
	r.SetRates(1000, 256_000, 2*time.Second)
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["records_per_second"] != 500.0 || got["megabytes_per_second"] != 0.128 || got["errors"] != 0.0 {
		t.Errorf("the rates are %v, %v, %v", got["records_per_second"], got["megabytes_per_second"], got["errors"])
	}
	for member, fields := range map[string][]string{
		"latency_ms":  {"p50", "p95", "p99", "p999", "p9999", "max"},
		"verified":    {"lost", "duplicated", "reordered"},
		"environment": {"cpu_model", "cores", "kernel", "file_system", "broker", "command"},
	} {
		object, ok := got[member].(map[string]any)
		if !ok {
			t.Fatalf("%s is %v", member, got[member])
		}
		for _, field := range fields {
			if _, ok := object[field]; !ok {
				t.Errorf("%s has no %s", member, field)
			}
		}
	}
	text.Reset()
	r.Latency = nil
	if err := r.WriteJSON(&text); err != nil || !strings.Contains(text.String(), `"latency_ms": null`) {
		t.Errorf("what was not measured is %s, %v", text.String(), err)
	}
}

func TestTableNamesWhatFiguresDependOn(t *testing.T) {
	r := Result{
		Latency: &Latency{P50: 1.2345, P9999: 123.456, Count: 1}, Errors: 7, ErrorsByCode: map[string]int64{"OVERLOADED": 7}, Unsent: 3,
		Verified: ledger.Verdict{Lost: 5},
		Workload: Workload{Command: "produce", Client: "raw", Topic: "orders", Durability: "sync", Reached: "batch", RecordBytes: 256,
			BatchRecords: 1000, BatchBytes: 260 << 10, Compression: "none", Connections: 8, InFlight: 4},
		Environment: Environment{CPUModel: "a processor", Cores: 2, Kernel: "Linux 6", FileSystem: "ext4 on /dev/x", Command: "pulsebench produce",
			Broker: Broker{Version: "1.2", TopicConfigSet: []string{"durability=sync"}}},
	}
	r.SetRates(1_234_567, 256*1_234_567, time.Second)
	var text bytes.Buffer
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,234,567 records/s", "p50 1.234", "p99.99 123.5", "OVERLOADED 7", "5 lost", "3 requests", "durability sync, acknowledged with batch",
		"1000.0 records, 260.0 KiB", "a processor, 2 cores", "Linux 6", "ext4 on /dev/x", "1.2", "durability=sync", "pulsebench produce"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestCommandIsOneThatAShellTakesBack(t *testing.T) {
	got := CommandLine([]string{"bin/pulsebench", "produce", "--topic", "it's", "--json", "", "--brokers", "a:1,b:2", "$HOME"})
	if want := `bin/pulsebench produce --topic 'it'\''s' --json '' --brokers a:1,b:2 '$HOME'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -999: "-999"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{12: "12 B", 1536: "1.5 KiB", 8 << 20: "8.0 MiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%v bytes are %s, want %s", n, got, want)
		}
	}
}

func TestBrokerSettings(t *testing.T) {
	b := NewBroker("a:1", &proto.HelloResponse{BrokerVersion: "1"}, []proto.TopicConfigEntry{
		{Key: "durability", Value: "batch", Source: proto.ConfigSourceTopic}, {Key: "flush.ms", Value: "5ms"}})
	if !reflect.DeepEqual(b.TopicConfigSet, []string{"durability=batch"}) || b.TopicConfig["flush.ms"] != "5ms" {
		t.Errorf("%+v", b)
	}
}

// A line drawn for nobody must cost nothing and stop when told.
func TestProgressIsDrawnOnlyForATerminal(t *testing.T) {
	if Terminal(new(bytes.Buffer)) != nil {
		t.Error("a buffer is taken for a terminal")
	}
	p := StartProgress(nil, "x", func() (int64, int64) { t.Error("somebody counts"); return 0, 0 })
	p.Stop()
}
