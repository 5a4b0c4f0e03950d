package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/sdk"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

func newConsume(s *session) *cobra.Command {
	w := new(workload)
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Measure reading a topic from its start to its end",
		Long: `Reads a topic from the first record kept to where it ended when the run began, and measures
how fast that is. What can be verified is: no offset is missing, every checksum is right,
and what earlier runs of pulsebench have sent is there once and in order.

An empty or missing topic is filled first with --records records, as pulsebench produce
would do it, and then all of them have to be found. Otherwise --records bounds how many are
read, and --duration how long.

With --group the consumers are members of a stream group, which is set to the first record
kept; it may have no other members. They commit each second, as the Go client does by itself.
What a member gets a second time counts as duplicated.

With --queue they are members of a queue group, set and checked in the same way, and each
message is acknowledged on its own. Only what is acknowledged on disk counts, and messages
may come in any order.

The latency is that of one request, from FETCH to the end of its answer; with --sdk it is
that of one call of Poll, and with --queue the time from taking a message to its
acknowledgement on disk.`,
		Example: `  pulsebench consume --topic orders
  pulsebench consume --topic fresh --records 10000000 --partitions 16
  pulsebench consume --sdk --consumers 2
  pulsebench consume --sdk --group billing --consumers 16
  pulsebench consume --sdk --queue mails --consumers 32 --prefetch 256`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w.producers = 1
			if err := w.validate(cmd); err != nil {
				return err
			}
			return w.consume(cmd.Context(), s)
		},
	}
	w.addShared(cmd)
	w.addReading(cmd)
	complete(cmd)
	return cmd
}

// verdicts is the account of a reading and what it comes to.
type verdicts interface {
	load.Account
	Verdict() ledger.Verdict
	Damages() []string
}

func (w *workload) consume(ctx context.Context, s *session) error {
	r, err := w.open(ctx, s)
	if err != nil {
		return err
	}
	result, latency, err := r.consume(ctx)
	if err != nil {
		return err
	}
	return r.finish(result, latency)
}

// consume reads the topic and judges what it holds.
func (r *run) consume(ctx context.Context) (_ *report.Result, _ *hdrhistogram.Histogram, err error) {
	w, to := r.workload, r.from
	if r.from, err = r.topic.Offsets(ctx, core.Version, proto.OffsetKindEarliest); err != nil {
		return nil, nil, err
	}
	result := r.result("consume")
	survey := ledger.NewSurvey()
	survey.Unordered = w.queue != ""
	var account verdicts = survey
	filled := between(r.from, to) == 0
	if filled {
		if to, err = r.fillTopic(ctx, result); err != nil {
			return nil, nil, err
		}
		account = r.ledger
	} else {
		r.template = nil // what lies there is other runs'
		result.Workload.RecordBytes, result.Workload.Compression = 0, ""
	}
	if w.records > 0 && !filled {
		to = shorten(r.from, to, w.records)
	}
	reading, err := r.openWhole(ctx, to, account)
	if err != nil {
		return nil, nil, err
	}
	defer reading.Close()
	start := w.clock()
	if err := r.watch("consuming", reading.Tallies(), func() error { return runFor(ctx, reading, w.readDuration()) }); err != nil {
		return nil, nil, err
	}
	read := reading.Tally()
	if r.ledger.Missing() > 0 && w.readDuration() > 0 {
		account = nil // the time was over before the end: nobody can say what is missing
	}
	refusals(result, read)
	batches(result, read)
	if w.sdk {
		result.Workload.Consumers, result.Workload.Group, result.Workload.Queue = w.consumers, w.group, w.queue
	}
	result.Requests = read.Requests
	bytes := read.Bytes
	if filled {
		bytes = read.Records.Load() * int64(w.recordBytes)
	}
	result.SetRates(read.Records.Load(), bytes, took(read, start))
	result.CPUSeconds, result.BrokerCPUSeconds = r.busy.Seconds(), r.serverBusy.Seconds()
	result.Latency = report.LatencyOf(read.Latency)
	result.Workload.LatencyOf = "from FETCH to the end of its answer"
	if w.rate > 0 {
		result.Workload.LatencyOf = "from the time a FETCH was due to the end of its answer"
	}
	if w.sdk {
		result.Workload.LatencyOf = "one call of Poll, from when it was due"
	}
	if w.queue != "" {
		result.Workload.LatencyOf = "from taking a message to its acknowledgement on disk"
	}
	result.ForeignRecords = reading.Foreign()
	if account == nil {
		return nil, nil, fmt.Errorf("%d of %d records were read in %v: give it more time", read.Records.Load(), between(r.from, to), w.duration)
	}
	result.Verified, result.Damages = account.Verdict(), account.Damages()
	return result, read.Latency, nil
}

// readDuration bounds reading only when it was asked for: the end of the topic ends it else.
func (w *workload) readDuration() time.Duration {
	if w.changed("duration") {
		return w.duration
	}
	return 0
}

const (
	// shownWait is how long a broker may take to show what it has acknowledged, and shownCheck how often it is asked.
	shownWait  = 5 * time.Second
	shownCheck = 10 * time.Millisecond
)

// fillTopic produces what is to be read, and returns where the logs end then.
func (r *run) fillTopic(ctx context.Context, result *report.Result) ([]int64, error) {
	if r.records == 0 {
		return nil, fmt.Errorf("topic %q is empty: say with --records how many to fill it with", r.topic.Name)
	}
	duration, rate := r.duration, r.rate
	r.duration, r.rate = 0, 0 // they are those of reading
	sent, _, err := r.send(ctx)
	r.duration, r.rate = duration, rate
	if err != nil {
		return nil, fmt.Errorf("fill topic %q: %w", r.topic.Name, err)
	}
	r.sent(result, sent)
	// At durability none the log ends, for readers, behind what has been written; the rest follows soon.
	for deadline := time.Now().Add(shownWait); ; {
		to, err := r.topic.Offsets(ctx, core.Version, proto.OffsetKindLatest)
		if err != nil || between(r.from, to) >= sent.Records.Load() || time.Now().After(deadline) {
			return to, err
		}
		time.Sleep(shownCheck)
	}
}

// openWhole connects what reads the topic up to an offset of each partition.
func (r *run) openWhole(ctx context.Context, to []int64, account load.Account) (reading, error) {
	if r.queue != "" {
		return r.openQueue(ctx, to, account, false)
	}
	if r.sdk {
		return sdk.OpenConsumers(ctx, sdk.ConsumersSpec{
			Brokers: r.brokers, Version: core.Version, Topic: r.topic.Name, Group: r.group, Consumers: r.consumers, Reuse: r.reuse, From: r.from, Rate: r.rate, Records: between(r.from, to),
			Account: account, Clock: r.clock,
		})
	}
	spec := r.readingSpec()
	spec.To, spec.Account, spec.Rate = to, account, r.rate
	return load.OpenReading(ctx, spec)
}

// openQueue has the members of a queue group join; without an end they go on until they are stopped.
func (r *run) openQueue(ctx context.Context, to []int64, account load.Account, endToEnd bool) (reading, error) {
	spec := sdk.QueueSpec{
		Brokers: r.brokers, Version: core.Version, Topic: r.topic.Name, Queue: r.queue, Members: r.consumers, Prefetch: r.prefetch, From: r.from, To: to,
		Account: account, EndToEnd: endToEnd, Clock: r.clock,
	}
	if endToEnd {
		spec.Filler = r.filler()
	}
	return sdk.OpenQueue(ctx, spec)
}

// runFor reads for a time, or to the end when it is 0.
func runFor(ctx context.Context, r load.Runner, duration time.Duration) error {
	if duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, duration, load.ErrEnough)
		defer cancel()
	}
	if err := r.Run(ctx); err != nil && !errors.Is(err, load.ErrEnough) {
		return err
	}
	return nil
}

// between is how many offsets lie between two places in every partition.
func between(from, to []int64) (n int64) {
	for p := range from {
		n += max(to[p]-from[p], 0)
	}
	return n
}

// shorten moves the ends so that about as many records are left, from each partition as many as it has of its share.
func shorten(from, to []int64, records int64) []int64 {
	short := append([]int64(nil), from...)
	for left := min(records, between(from, to)); left > 0; {
		open := int64(0)
		for p := range short {
			if short[p] < to[p] {
				open++
			}
		}
		share := max(left/open, 1)
		for p := range short {
			n := min(share, to[p]-short[p], left)
			short[p] += n
			left -= n
		}
	}
	return short
}
