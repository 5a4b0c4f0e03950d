package main

import (
	"context"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/sdk"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// sending is what produces: raw senders or producers of the Go client.
type sending interface {
	load.Runner
	Start() int64
	Tallies() []*load.Tally
	Close()
}

// reading is what consumes: raw fetchers or consumers of the Go client.
type reading interface {
	load.Runner
	Tally() *load.Tally
	Tallies() []*load.Tally
	Foreign() int64
	Close()
}

// run is one run of a workload on its topic.
type run struct {
	*session
	*workload
	topic    *load.Topic
	from     []int64           // where the logs ended before it, by partition
	template *payload.Template // of raw batches; nil with --sdk
	ledger   *ledger.Ledger
	busy     time.Duration // processor time of what is measured

	serverBusy time.Duration     // the same of the other side, when it is known
	settings   map[string]string // of the broker, when its metrics port is known
}

// open finds or creates the topic and notes where its logs end.
func (w *workload) open(ctx context.Context, s *session) (*run, error) {
	r := &run{session: s, workload: w}
	var err error
	if r.topic, err = load.OpenTopic(ctx, w.brokers, core.Version, w.topicSpec()); err != nil {
		return nil, err
	}
	if r.from, err = r.topic.Offsets(ctx, core.Version, proto.OffsetKindLatest); err != nil {
		return nil, err
	}
	if w.admin != "" {
		if r.settings, err = host.ReadSettings(ctx, w.admin); err != nil {
			return nil, err
		}
		if w.serverTime == nil {
			w.serverTime = (&host.Server{Admin: w.admin}).ProcessorTime
		}
	}
	perMark := 1
	if !w.sdk {
		perMark = w.batchRecords
		spec := payload.Spec{Run: w.run, Records: w.batchRecords, RecordBytes: w.recordBytes, Codec: w.codec}
		if r.template, err = payload.NewTemplate(spec); err != nil {
			return nil, err
		}
	}
	r.ledger = ledger.New(ledger.Shape{Run: w.run, Producers: w.senders(), Partitions: uint32(len(r.topic.Partitions)), RecordsPerMark: perMark, Unordered: w.queue != ""})
	return r, nil
}

// openSending connects what produces.
func (r *run) openSending(ctx context.Context) (sending, error) {
	if r.sdk {
		return sdk.OpenProducers(ctx, sdk.ProducersSpec{
			Brokers: r.brokers, Version: core.Version, Topic: r.topic.Name, Run: r.workload.run, Producers: r.producers,
			RecordBytes: r.recordBytes, Compression: r.codec, BatchRecords: r.sdkBatchRecords(), InFlight: r.sdkInFlight(),
			Rate: r.rate, Duration: r.duration, Records: r.records, Ledger: r.ledger, Clock: r.clock,
		})
	}
	return load.OpenSending(ctx, load.SendingSpec{
		Topic: r.topic, Version: core.Version, Template: r.template, Ledger: r.ledger, Connections: r.connections,
		InFlight: r.inFlight, Acks: r.acks, Rate: r.rate, Duration: r.duration, Records: r.records, Clock: r.clock,
	})
}

// filler is what follows the mark in each record of the Go client's producers.
func (r *run) filler() []byte {
	if !r.sdk {
		return nil
	}
	return payload.NewValue(r.recordBytes, 0)[payload.MarkBytes:]
}

// readingSpec is a raw reading of what this run writes.
func (r *run) readingSpec() load.ReadingSpec {
	return load.ReadingSpec{
		Topic: r.topic, Version: core.Version, Connections: r.connections, InFlight: r.inFlight, Bytes: r.fetchBytes, From: r.from,
		Account: r.ledger, Template: r.template, Filler: r.filler(), Clock: r.clock, Hidden: r.acks == proto.AcksNone || r.topic.Config(proto.TopicConfigDurability) == proto.DurabilityNone.String(),
	}
}

// serverNow is the processor time of the other side so far; 0 when it is not known.
func (r *run) serverNow() time.Duration {
	if r.serverTime == nil {
		return 0
	}
	return r.serverTime()
}

// watch shows on a terminal what tallies come to while do runs, and notes the processor time that it takes.
func (r *run) watch(what string, tallies []*load.Tally, do func() error) error {
	progress := report.StartProgress(report.Terminal(r.err), what, func() (records, errors int64) {
		for _, t := range tallies {
			records += t.Records.Load()
			errors += t.Errors.Load()
		}
		return records, errors
	})
	defer progress.Stop()
	before, serverBefore := report.ProcessorTime(), r.serverNow()
	err := do()
	r.busy, r.serverBusy = report.ProcessorTime()-before, r.serverNow()-serverBefore
	return err
}
