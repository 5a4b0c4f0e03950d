package main

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/proto"
)

func newProduce(s *session) *cobra.Command {
	w := new(workload)
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Measure producing, and read back what was stored",
		Long: `Sends records and measures how many the broker acknowledges and how long that takes; then
reads them back and verifies each of them.

Flat out, --in-flight requests are kept unanswered on each of --connections. With --rate
they are sent on a schedule instead, and the latency of each counts from when it was due:
a broker that stalls is seen in everything that had to wait for it.`,
		Example: `  pulsebench produce --partitions 128 --durability sync --duration 30s
  pulsebench produce --batch-records 1 --connections 64 --in-flight 32
  pulsebench produce --batch-records 1 --connections 1 --in-flight 1 --hdr one.hgrm
  pulsebench produce --sdk --producers 2 --records 5000000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.validate(cmd); err != nil {
				return err
			}
			return w.produce(cmd.Context(), s)
		},
	}
	w.addShared(cmd)
	w.addSending(cmd)
	complete(cmd)
	return cmd
}

func (w *workload) produce(ctx context.Context, s *session) error {
	r, err := w.open(ctx, s)
	if err != nil {
		return err
	}
	result, latency, err := r.produce(ctx)
	if err != nil {
		return err
	}
	return r.finish(result, latency)
}

// produce sends, reads back and judges.
func (r *run) produce(ctx context.Context) (*report.Result, *hdrhistogram.Histogram, error) {
	w := r.workload
	sent, took, err := r.send(ctx)
	if err != nil {
		return nil, nil, err
	}
	result := r.result("produce")
	r.sent(result, sent)
	result.CPUSeconds, result.BrokerCPUSeconds = r.busy.Seconds(), r.serverBusy.Seconds()
	if !w.blind {
		read, readTook, err := r.readBack(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("%d records were acknowledged; reading them back: %w", sent.Records.Load(), err)
		}
		batches(result, read)
		result.ReadBack = report.NewReadBack(read.Records.Load(), read.Records.Load()*int64(w.recordBytes), readTook)
		result.Verified, result.Damages = r.ledger.Verdict(), r.ledger.Damages()
	}
	result.SetRates(sent.Records.Load(), sent.Records.Load()*int64(w.recordBytes), took)
	result.Latency = report.LatencyOf(sent.Latency)
	result.Workload.LatencyOf = "from the time a batch was due to its acknowledgement"
	if w.sdk {
		result.Workload.LatencyOf = "from the time a record was due to its result"
	}
	if w.acks == proto.AcksNone {
		result.Latency = nil
	}
	return result, sent.Latency, nil
}

// send produces until the time or the records end.
func (r *run) send(ctx context.Context) (*load.Tally, time.Duration, error) {
	sending, err := r.openSending(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer sending.Close()
	if err := r.watch("producing", sending.Tallies(), func() error { return sending.Run(ctx) }); err != nil {
		return nil, 0, err
	}
	sum := load.Merge(sending.Tallies())
	return sum, took(sum, sending.Start()), nil
}

// readBack reads what the run has written.
func (r *run) readBack(ctx context.Context) (*load.Tally, time.Duration, error) {
	var tally *load.Tally
	start := r.clock()
	err := r.watch("reading back", nil, func() (err error) {
		tally, err = load.ReadBack(ctx, r.readingSpec(), r.ledger)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return tally, took(tally, start), nil
}

// took is the time from a start to the last good answer; 0 when there was none.
func took(t *load.Tally, start int64) time.Duration { return time.Duration(max(t.Last-start, 0)) }
