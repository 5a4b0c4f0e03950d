package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// call runs pulsebench and returns what it printed.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = execute(context.Background(), streams{out: &out, err: &err}, args)
	return code, out.String(), err.String()
}

// small is a run that takes no time.
func small(b *fakeBroker, command string, more ...string) []string {
	return append([]string{command, "--brokers", b.address(), "--topic", "t", "--partitions", "3", "--records", "600", "--batch-records", "10",
		"--record-size", "64", "--connections", "2", "--in-flight", "3"}, more...)
}

// outcome is what scripts read of the JSON.
type outcome struct {
	RecordsPerSecond   float64 `json:"records_per_second"`
	MegabytesPerSecond float64 `json:"megabytes_per_second"`
	Latency            *struct {
		P50, P95, P99, P999, P9999, Max float64
	} `json:"latency_ms"`
	Errors   int64
	Records  int64
	Verified struct{ Lost, Duplicated, Reordered, Damaged int64 }
	Workload struct {
		BatchRecords float64 `json:"batch_records"`
		Compression  string
	}
	Environment struct {
		Cores   int
		Kernel  string
		Command string
		Broker  struct{ Version string }
	}
}

func resultOf(t *testing.T, stdout string) (o outcome) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &o); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	return o
}

func TestRunsVerify(t *testing.T) {
	for _, command := range []string{"produce", "e2e", "consume"} {
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			t.Run(command+" "+codec, func(t *testing.T) {
				code, stdout, stderr := call(t, small(startFake(t), command, "--compression", codec, "--json", "-")...)
				if code != exitOK {
					t.Fatalf("exit code %d: %s", code, stderr)
				}
				o := resultOf(t, stdout)
				if o.Records != 600 || o.Errors != 0 || o.Workload.BatchRecords != 10 || o.Workload.Compression != codec {
					t.Errorf("%+v", o)
				}
				if o.RecordsPerSecond <= 0 || o.MegabytesPerSecond <= 0 || o.Latency == nil || o.Latency.Max <= 0 || o.Latency.P50 > o.Latency.P9999 {
					t.Errorf("the figures are %+v", o)
				}
				if o.Environment.Cores < 1 || o.Environment.Broker.Version != "fake-1" || o.Environment.Command == "" {
					t.Errorf("the environment is %+v", o.Environment)
				}
				if !strings.Contains(stderr, "0 lost, 0 duplicated, 0 reordered") || !strings.Contains(stderr, "fake-1") {
					t.Errorf("the table is\n%s", stderr)
				}
			})
		}
	}
}

func TestRunsThroughTheClientVerify(t *testing.T) {
	b := startFake(t)
	for _, args := range [][]string{
		{"produce", "--producers", "2", "--records", "900"},
		{"produce", "--rate", "50000", "--records", "300", "--compression", "lz4"},
		{"consume", "--consumers", "2"},
		{"e2e", "--consumers", "2", "--records", "500"},
		{"consume", "--topic", "filled", "--records", "400"},
	} {
		shared := []string{args[0], "--sdk", "--brokers", b.address(), "--topic", "t", "--partitions", "3", "--record-size", "64", "--json", "-"}
		code, stdout, stderr := call(t, append(shared, args[1:]...)...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
		want := map[string]int64{"900": 900, "300": 300, "500": 500, "400": 400, "2": 1200}[args[len(args)-1]]
		if len(args) == 7 {
			want = 300
		}
		if o := resultOf(t, stdout); o.Records != want || o.Errors != 0 || o.Latency == nil || o.Latency.Max <= 0 {
			t.Errorf("%v: %+v, want %d records", args, o, want)
		}
	}
}

func TestRecordLostBehindTheClientIsFound(t *testing.T) {
	b := startFake(t)
	b.lose = true
	code, stdout, stderr := call(t, "produce", "--sdk", "--brokers", b.address(), "--record-size", "64", "--records", "5000", "--batch-records", "10", "--json", "-")
	if o := resultOf(t, stdout); code != exitFailure || o.Verified.Lost == 0 {
		t.Errorf("exit code %d, %+v: %s", code, o, stderr)
	}
}

func TestRunAtARateAndWithoutAcks(t *testing.T) {
	b := startFake(t)
	code, stdout, stderr := call(t, small(b, "produce", "--rate", "20000", "--json", "-")...)
	if o := resultOf(t, stdout); code != exitOK || o.Records != 600 {
		t.Errorf("at a rate: exit code %d, %+v, %s", code, o, stderr)
	}
	code, stdout, stderr = call(t, small(b, "produce", "--acks", "none", "--json", "-")...)
	if o := resultOf(t, stdout); code != exitOK || o.Records != 600 || o.Latency != nil {
		t.Errorf("without acks: exit code %d, %+v, %s", code, o, stderr)
	}
	// Reading at a rate takes as long as that says; the topic was filled before, flat out.
	started := time.Now()
	code, stdout, stderr = call(t, small(startFake(t), "consume", "--rate", "2000", "--json", "-")...)
	if o := resultOf(t, stdout); code != exitOK || o.Records != 600 || time.Since(started) < 200*time.Millisecond || o.RecordsPerSecond > 2500 {
		t.Errorf("reading at a rate: exit code %d, %+v in %v, %s", code, o, time.Since(started), stderr)
	}
	code, stdout, stderr = call(t, "consume", "--sdk", "--brokers", b.address(), "--topic", "t", "--rate", "4000", "--json", "-")
	if o := resultOf(t, stdout); code != exitOK || o.Records != 1200 {
		t.Errorf("reading at a rate through the client: exit code %d, %+v, %s", code, o, stderr)
	}
	code, stdout, stderr = call(t, small(b, "consume", "--records", "800", "--json", "-")...)
	if o := resultOf(t, stdout); code != exitOK || o.Records < 800 || o.Records > 830 {
		t.Errorf("reading 800 of 1200: exit code %d, %+v, %s", code, o, stderr)
	}
}

func TestBrokerThatIsWrongIsFoundOut(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong func(*fakeBroker)
		want  string
	}{
		{"lose", func(b *fakeBroker) { b.lose = true }, "10 lost"},
		{"duplicate", func(b *fakeBroker) { b.duplicate = true }, "10 duplicated"},
		{"reorder", func(b *fakeBroker) { b.reorder = true }, "10 reordered"},
		{"corrupt", func(b *fakeBroker) { b.corrupt = true }, "1 batches damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startFake(t)
			c.wrong(b)
			// One connection and one partition, so that the fifth batch follows the fourth.
			code, stdout, stderr := call(t, "produce", "--brokers", b.address(), "--partitions", "1", "--records", "200", "--batch-records", "10",
				"--connections", "1", "--record-size", "64")
			if code != exitFailure {
				t.Errorf("exit code %d, want %d", code, exitFailure)
			}
			if !strings.Contains(stdout, c.want) || !strings.Contains(stderr, c.want) {
				t.Errorf("it says %s%s, want %q", stdout, stderr, c.want)
			}
		})
	}
}

// At durability none a batch is acknowledged before it is written, and shown once it is.
func TestWhatIsShownLateIsNotLost(t *testing.T) {
	for _, durability := range []string{"none", "sync"} {
		b := startFake(t)
		b.late = 1000
		code, stdout, stderr := call(t, small(b, "produce", "--durability", durability, "--json", "-")...)
		want := exitOK
		if durability != "none" {
			want = exitFailure
		}
		if o := resultOf(t, stdout); code != want || o.Verified.Lost > 0 == (want == exitOK) {
			t.Errorf("durability %s: exit code %d, %+v: %s", durability, code, o.Verified, stderr)
		}
	}
}

func TestRefusedBatchesAreReplaced(t *testing.T) {
	b := startFake(t)
	b.refuse = 4
	code, stdout, stderr := call(t, small(b, "produce", "--json", "-")...)
	if o := resultOf(t, stdout); code != exitOK || o.Records != 600 || o.Errors != 4 {
		t.Errorf("exit code %d, %+v, %s", code, o, stderr)
	}
}

func TestExitCodes(t *testing.T) {
	b := startFake(t)
	nobody := startFake(t)
	nobody.listener.Close()
	broken := startFake(t)
	broken.broken = true
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"help", []string{"--help"}, exitOK, ""},
		{"no command", nil, exitUsage, "produce, consume, e2e"},
		{"unknown command", []string{"flood"}, exitUsage, "flood"},
		{"unknown flag", []string{"produce", "--flood"}, exitUsage, "--flood"},
		{"an argument", []string{"produce", "orders"}, exitUsage, "orders"},
		{"several faults at once", small(b, "produce", "--record-size", "8", "--acks", "all", "--compression", "zip", "--durability", "disk"), exitUsage, "--durability"},
		{"no room for a mark", small(b, "produce", "--record-size", "39"), exitUsage, "mark of 40 bytes"},
		{"a rate below zero", small(b, "produce", "--rate", "-1"), exitUsage, "--rate"},
		{"producers without the client", small(b, "produce", "--producers", "2"), exitUsage, "--sdk"},
		{"a group without the client", small(b, "consume", "--group", "g"), exitUsage, "--sdk"},
		{"a queue group and a stream group", []string{"consume", "--sdk", "--group", "g", "--queue", "q"}, exitUsage, "one of them"},
		{"prefetch without a queue group", []string{"consume", "--sdk", "--group", "g", "--prefetch", "2"}, exitUsage, "--queue"},
		{"connections with the client", []string{"produce", "--sdk", "--connections", "2"}, exitUsage, "--connections"},
		{"no broker", small(nobody, "produce"), exitFailure, "no broker could be reached"},
		{"a broker that refuses", small(broken, "produce"), exitFailure, "CORRUPT_BATCH"},
		{"nothing to read", []string{"consume", "--brokers", b.address(), "--topic", "empty"}, exitFailure, "--records"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := call(t, c.args...)
			if code != c.code || !strings.Contains(stdout+stderr, c.says) {
				t.Errorf("exit code %d, want %d; it says %s%s", code, c.code, stdout, stderr)
			}
		})
	}
}

func TestTopicThatDiffersIsRefused(t *testing.T) {
	b := startFake(t)
	if code, _, stderr := call(t, small(b, "produce")...); code != exitOK {
		t.Fatal(stderr)
	}
	for _, args := range [][]string{{"--partitions", "4"}, {"--durability", "batch"}} {
		if code, _, stderr := call(t, small(b, "produce", args...)...); code != exitFailure || !strings.Contains(stderr, "name another topic") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

func TestFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	result, percentiles := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.hgrm")
	code, stdout, stderr := call(t, small(startFake(t), "produce", "--json", result, "--hdr", percentiles, "--data-dir", dir)...)
	if code != exitOK || !strings.Contains(stdout, "records/s") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	if o := resultOf(t, string(text)); o.Records != 600 {
		t.Errorf("%+v", o)
	}
	if text, err = os.ReadFile(percentiles); err != nil || !bytes.Contains(text, []byte("Percentile")) || !bytes.Contains(text, []byte("Total count    =           60")) {
		t.Errorf("%v, %s", err, text)
	}
}

func TestShorten(t *testing.T) {
	got := shorten([]int64{0, 5, 0}, []int64{10, 6, 100}, 50)
	if n := between([]int64{0, 5, 0}, got); n != 50 || got[0] != 10 || got[1] != 6 {
		t.Errorf("the ends are %v with %d records, want 50 and the small partitions whole", got, n)
	}
}
