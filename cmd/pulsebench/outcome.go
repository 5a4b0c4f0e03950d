package main

import (
	"fmt"
	"io"
	"os"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/proto"
)

// result begins a result with everything that is known whatever the run did.
func (r *run) result(command string) *report.Result {
	result := &report.Result{Environment: r.environment}
	result.Environment.Broker = report.NewBroker(r.brokers, &r.topic.Hello, r.topic.Configs)
	result.Environment.Broker.Settings = r.settings
	result.Workload = report.Workload{
		Command: command, Client: "raw", Topic: r.topic.Name, Partitions: len(r.topic.Partitions),
		Durability: r.topic.Config(proto.TopicConfigDurability), RecordBytes: r.recordBytes, Compression: r.codec.String(), Rate: r.rate,
	}
	if r.sdk {
		result.Workload.Client = "sdk"
	} else {
		result.Workload.Connections, result.Workload.InFlight = r.connections, r.inFlight
	}
	return result
}

// refusals fills in what was refused and what was never sent.
func refusals(result *report.Result, t *load.Tally) {
	result.Errors += t.Errors.Load()
	result.Unsent += t.Unsent
	for code, n := range t.ByCode {
		if result.ErrorsByCode == nil {
			result.ErrorsByCode = make(map[string]int64)
		}
		result.ErrorsByCode[code.String()] += n
	}
}

// sent fills in what was produced.
func (r *run) sent(result *report.Result, t *load.Tally) {
	refusals(result, t)
	result.Requests = t.Requests
	result.Workload.Acks = r.acks.String()
	if t.Requests > 0 && r.acks != proto.AcksNone {
		result.Workload.Reached = t.Durability.String()
	}
	if r.template != nil {
		result.Workload.BatchRecords = float64(r.batchRecords)
		result.Workload.BatchBytes = float64(r.template.BatchBytes())
		result.Workload.Compression = r.template.Codec().String()
	} else {
		result.Workload.Producers = r.producers
	}
}

// batches fills in the mean of the batches that were read, which is what the Go client made of its records.
func batches(result *report.Result, t *load.Tally) {
	if t.Batches > 0 && result.Workload.BatchRecords == 0 {
		result.Workload.BatchRecords = float64(t.Records.Load()) / float64(t.Batches)
		result.Workload.BatchBytes = float64(t.Bytes) / float64(t.Batches)
	}
}

// finish writes the result everywhere it was asked for, and judges it.
func (r *run) finish(result *report.Result, latency *hdrhistogram.Histogram) error {
	table := r.out
	if r.jsonFile == "-" {
		table = r.err
		if err := result.WriteJSON(r.out); err != nil {
			return err
		}
	} else if r.jsonFile != "" {
		if err := writeFile(r.jsonFile, result.WriteJSON); err != nil {
			return err
		}
	}
	if r.hdrFile != "" {
		if err := writeFile(r.hdrFile, func(w io.Writer) error { return report.WriteHDR(w, latency) }); err != nil {
			return err
		}
	}
	if err := result.WriteTable(table); err != nil {
		return err
	}
	switch {
	case !result.Verified.Clean():
		return fmt.Errorf("the log does not hold what was acknowledged: %v", result.Verified)
	case result.Records == 0:
		return fmt.Errorf("not one record went through; %d requests were refused", result.Errors)
	}
	return nil
}

// writeFile writes a file as a whole or says what failed.
func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
