package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// unknown stands for what could not be found out.
const unknown = "not known"

// WriteTable prints the result for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }

	load, env := &r.Workload, &r.Environment
	row("throughput", "%s records/s, %.1f MB/s", grouped(int64(r.RecordsPerSecond)), r.MegabytesPerSecond)
	size := ""
	if load.RecordBytes > 0 {
		size = " of " + bytesText(float64(load.RecordBytes))
	}
	row("records", "%s%s in %.2f s", grouped(r.Records), size, r.Seconds)
	row("processor time", "%.2f s of pulsebench itself, %.0f %% of a core", r.CPUSeconds, 100*r.CPUSeconds/max(r.Seconds, 1e-9))
	if r.BrokerCPUSeconds > 0 {
		row("", "%.2f s of the broker, %.0f %% of a core", r.BrokerCPUSeconds, 100*r.BrokerCPUSeconds/max(r.Seconds, 1e-9))
	}
	r.latencyRow(row, load.LatencyOf, r.Latency)
	if r.ProduceLatency != nil {
		r.latencyRow(row, "from the time a batch was due to its acknowledgement", r.ProduceLatency)
	}
	if r.ReadBack != nil {
		row("read back", "%s records in %.2f s: %s records/s, %.1f MB/s", grouped(r.ReadBack.Records), r.ReadBack.Seconds,
			grouped(int64(r.ReadBack.RecordsPerSecond)), r.ReadBack.MegabytesPerSecond)
	}
	row("verified", "%s", r.Verified)
	for _, place := range r.Damages {
		row("", "%s", place)
	}
	if r.ForeignRecords > 0 {
		row("", "%s records that pulsebench did not send", grouped(r.ForeignRecords))
	}
	row("refused", "%s", r.refusals())
	if r.Unsent > 0 {
		row("not sent", "%s requests were due and could not be sent before the end; their wait counts in the latency", grouped(r.Unsent))
	}

	row("", "")
	row("workload", "%s, %s", load.Command, r.client())
	row("topic", "%s, %d partitions, durability %s%s", load.Topic, load.Partitions, load.Durability, load.reached())
	if load.BatchRecords > 0 {
		row("batch", "%.1f records, %s, compression %s", load.BatchRecords, bytesText(load.BatchBytes), or(load.Compression))
	}
	row("broker", "%s at %s", or(env.Broker.Version), env.Broker.Addresses)
	row("topic's own settings", "%s", orNone(strings.Join(env.Broker.TopicConfigSet, " ")))
	if len(env.Broker.Settings) > 0 {
		var some []string
		for _, key := range settingsShown {
			some = append(some, key+"="+env.Broker.Settings[key])
		}
		row("broker's settings", "%s", strings.Join(some, " "))
	}
	row("window", "%s and %s requests for each connection", bytesText(float64(env.Broker.WindowBytes)), grouped(int64(env.Broker.WindowRequests)))
	row("processor", "%s, %d cores", or(env.CPUModel), env.Cores)
	row("memory", "%s", bytesText(float64(env.Memory)))
	row("kernel", "%s %s", or(env.Kernel), env.Arch)
	row("file system", "%s", or(env.FileSystem))
	row("built with", "%s, pulsebench %s", env.Go, env.Version)
	row("again", "%s", env.Command)
	return t.Flush()
}

// settingsShown are those of the broker's settings that a person wants to see with a figure; its JSON has all of them.
var settingsShown = []string{"broker.shards", "broker.reactors", "memory.limit", "storage.journal-size", "storage.tail-cache", "storage.disk"}

func (r *Result) latencyRow(row func(string, string, ...any), of string, l *Latency) {
	if l == nil {
		row("latency", "not measured: nothing is answered")
		return
	}
	row("latency in ms", "p50 %s  p95 %s  p99 %s  p99.9 %s  p99.99 %s  max %s", millis(l.P50), millis(l.P95), millis(l.P99), millis(l.P999), millis(l.P9999), millis(l.Max))
	row("", "%s", of)
}

func (r *Result) client() string {
	load := &r.Workload
	pace := "flat out"
	if load.Rate > 0 {
		pace = fmt.Sprintf("%s records/s asked for", grouped(int64(load.Rate)))
	}
	if load.Client == "sdk" {
		var who []string
		if load.Producers > 0 {
			who = append(who, fmt.Sprintf("%d producers", load.Producers))
		}
		if load.Consumers > 0 {
			what := "consumers"
			if load.Group != "" {
				what = "members of group " + load.Group
			} else if load.Queue != "" {
				what = "members of queue group " + load.Queue
			}
			who = append(who, fmt.Sprintf("%d %s", load.Consumers, what))
		}
		return fmt.Sprintf("through the Go client record by record, %s, %s", strings.Join(who, " and "), pace)
	}
	return fmt.Sprintf("raw, %d connections with %d requests in flight, %s", load.Connections, load.InFlight, pace)
}

// reached names the durability of the acknowledgements where it is not the topic's.
func (w *Workload) reached() string {
	switch w.Reached {
	case "", w.Durability:
		return ""
	}
	return ", acknowledged with " + w.Reached
}

func (r *Result) refusals() string {
	if r.Errors == 0 {
		return "0"
	}
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(r.ErrorsByCode)) {
		codes = append(codes, fmt.Sprintf("%s %s", code, grouped(r.ErrorsByCode[code])))
	}
	return fmt.Sprintf("%s requests: %s", grouped(r.Errors), strings.Join(codes, ", "))
}

func or(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

func orNone(text string) string {
	if text == "" {
		return "none, all are the broker's defaults"
	}
	return text
}
