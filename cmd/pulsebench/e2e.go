package main

import (
	"context"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/sdk"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

func newEndToEnd(s *session) *cobra.Command {
	w := new(workload)
	cmd := &cobra.Command{
		Use:   "e2e",
		Short: "Produce and consume at once, and measure from end to end",
		Long: `Sends records and reads them at the same time. The latency is from when a batch was due to
be sent until it was read; each carries that time. What was read is verified as it comes.

Raw, as many connections read as send, and each partition has a request waiting at the
broker. With --group the consumers are members of a stream group, which is set to where the
topic ends when the run begins; it may have no other members. With --queue they are those of
a queue group: each message is acknowledged on its own, and may come in any order.`,
		Example: `  pulsebench e2e --rate 100000 --batch-records 10 --partitions 8 --duration 1m
  pulsebench e2e --sdk --producers 1 --consumers 1 --rate 10000
  pulsebench e2e --sdk --group billing --consumers 4 --rate 10000
  pulsebench e2e --sdk --queue mails --consumers 4 --prefetch 64 --rate 10000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.validate(cmd); err != nil {
				return err
			}
			return w.endToEnd(cmd.Context(), s)
		},
	}
	w.addShared(cmd)
	w.addSending(cmd)
	w.addReading(cmd)
	complete(cmd)
	return cmd
}

func (w *workload) endToEnd(ctx context.Context, s *session) error {
	r, err := w.open(ctx, s)
	if err != nil {
		return err
	}
	result, latency, err := r.endToEnd(ctx)
	if err != nil {
		return err
	}
	return r.finish(result, latency)
}

// endToEnd sends and reads at once, and judges.
func (r *run) endToEnd(ctx context.Context) (*report.Result, *hdrhistogram.Histogram, error) {
	w := r.workload
	sending, err := r.openSending(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer sending.Close()
	reading, err := r.openFollowing(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer reading.Close()
	if err := r.watch("end to end", reading.Tallies(), func() error { return load.EndToEnd(ctx, sending, reading, r.ledger) }); err != nil {
		return nil, nil, fmt.Errorf("%d records were acknowledged: %w", r.ledger.Acked(), err)
	}
	sent, read := load.Merge(sending.Tallies()), reading.Tally()
	result := r.result("e2e")
	r.sent(result, sent)
	refusals(result, read)
	batches(result, read)
	if w.sdk {
		result.Workload.Consumers, result.Workload.Group, result.Workload.Queue = w.consumers, w.group, w.queue
	}
	result.SetRates(read.Records.Load(), read.Records.Load()*int64(w.recordBytes), took(read, sending.Start()))
	result.CPUSeconds, result.BrokerCPUSeconds = r.busy.Seconds(), r.serverBusy.Seconds()
	result.Latency = report.LatencyOf(read.EndToEnd)
	result.Workload.LatencyOf = "from the time a batch was due to be sent until it was read"
	if w.sdk {
		result.Workload.LatencyOf = "from the time a record was due to be sent until it was read"
	}
	if w.acks != proto.AcksNone {
		result.ProduceLatency = report.LatencyOf(sent.Latency)
	}
	result.ForeignRecords = reading.Foreign()
	result.Verified, result.Damages = r.ledger.Verdict(), r.ledger.Damages()
	return result, read.EndToEnd, nil
}

// openFollowing connects what reads the log as it grows.
func (r *run) openFollowing(ctx context.Context) (reading, error) {
	if r.queue != "" {
		return r.openQueue(ctx, nil, r.ledger, true)
	}
	if r.sdk {
		return sdk.OpenConsumers(ctx, sdk.ConsumersSpec{
			Brokers: r.brokers, Version: core.Version, Topic: r.topic.Name, Group: r.group, Consumers: r.consumers, Reuse: r.reuse, From: r.from, Follow: true,
			Account: r.ledger, Filler: r.filler(), EndToEnd: true, Clock: r.clock,
		})
	}
	spec := r.readingSpec()
	spec.Follow, spec.EndToEnd = true, true
	return load.OpenReading(ctx, spec)
}
