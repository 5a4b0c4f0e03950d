package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	brokersDefault     = "127.0.0.1:9090"
	topicDefault       = "pulsebench"
	durationDefault    = 10 * time.Second
	recordSizeDefault  = "256"
	batchDefault       = 1000
	connectionsDefault = 8
	inFlightDefault    = 8

	// connectionsMax bounds memory: each connection has a histogram and an account of its own.
	connectionsMax = 1024

	// recordBytesMax is far above what a broker takes as one batch, and keeps the batch's size from overflowing.
	recordBytesMax = 64 << 20
	batchMax       = 1 << 20
	fetchBytesMax  = 1 << 30

	// prefetchMax is what the Go client allows.
	prefetchMax = 100_000
)

// workload is what the flags say.
type workload struct {
	brokers    string
	topic      string
	dataFolder string
	admin      string
	jsonFile   string
	hdrFile    string
	sdk        bool

	partitions   uint32
	replicas     uint16
	durability   string
	acksText     string
	recordSize   string
	batchRecords int
	compression  string
	rate         float64
	duration     time.Duration
	records      int64
	connections  int
	inFlight     int
	producers    int
	consumers    int
	group        string
	queue        string
	prefetch     int
	reuse        bool
	fetchSize    string

	changed func(flag string) bool

	// What validate makes of them.
	recordBytes int
	fetchBytes  int // 0: the default
	codec       proto.Codec
	acks        proto.Acks
	run         payload.Run
	clock       load.Clock
	environment report.Environment

	// What compare and sweep set.
	blind      bool                 // nothing is kept that could be read back
	serverTime func() time.Duration // processor time of the other side, asked for right before and after what is measured; nil when nobody can say
}

// addShared declares the flags that every command has.
func (w *workload) addShared(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&w.brokers, "brokers", brokersDefault, "brokers to ask first: `HOST:PORT,HOST:PORT` or mq://HOST:PORT,...")
	flags.StringVar(&w.topic, "topic", topicDefault, "`name` of the topic; created when it is missing")
	flags.Uint32Var(&w.partitions, "partitions", 0, "partitions of the topic; one that exists must have as many (default: what it has, or the broker's default)")
	flags.Uint16Var(&w.replicas, "replicas", 0, "replicas of each partition; a topic that exists must have as many (default: what it has, or the broker's default)")
	flags.StringVar(&w.durability, "durability", "", "sync, batch or none: setting of the topic; one that exists must have it (default: what it has, or the broker's default)")
	flags.StringVar(&w.recordSize, "record-size", recordSizeDefault, fmt.Sprintf("`size` of each record's value, as 256 or 1KB; at least %d", payload.MarkBytes))
	flags.IntVar(&w.batchRecords, "batch-records", batchDefault, "records in each batch; with --sdk the most of them (there the default is the client's)")
	flags.StringVar(&w.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	flags.IntVar(&w.connections, "connections", connectionsDefault, "raw connections")
	flags.IntVar(&w.inFlight, "in-flight", inFlightDefault, "requests in flight on each connection; with --sdk batches per partition (there the default is the client's)")
	flags.DurationVar(&w.duration, "duration", durationDefault, "`time` that the run takes; without it --records ends the run")
	flags.Int64Var(&w.records, "records", 0, "`number` of records, rounded up to whole batches; the run ends with them, or with --duration when that is given")
	flags.StringVar(&w.jsonFile, "json", "", "`file` for the result as JSON; - is standard output, and the table goes to standard error")
	flags.StringVar(&w.hdrFile, "hdr", "", "`file` for every percentile of the latency, in the text form of HdrHistogram")
	flags.StringVar(&w.dataFolder, "data-dir", "", "`folder` of the broker's data when it is on this machine: the report names its file system")
	flags.StringVar(&w.admin, "admin", "", "the broker's metrics port, `HOST:PORT`: the report then has its settings and its processor time")
	flags.BoolVar(&w.sdk, "sdk", false, "go through the Go client record by record")
}

// addSending declares the flags of commands that measure producing.
func (w *workload) addSending(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&w.acksText, "acks", "durable", "durable: batches are acknowledged; none: they are not, and have no latency")
	flags.Float64Var(&w.rate, "rate", 0, "records per second over all connections, timed from when each was due; 0 is flat out")
	flags.IntVar(&w.producers, "producers", 1, "producers, with --sdk; each has a client of its own")
}

// addReading declares the flags of commands that measure consuming.
func (w *workload) addReading(cmd *cobra.Command) {
	flags := cmd.Flags()
	if flags.Lookup("rate") == nil { // a command that does not send
		flags.StringVar(&w.acksText, "acks", "durable", "durable or none: how records are sent that an empty topic is filled with")
		flags.Float64Var(&w.rate, "rate", 0, "records per second that are asked for over all connections, timed from when each request was due; 0 is flat out")
	}
	flags.IntVar(&w.consumers, "consumers", 1, "consumers, with --sdk, that share the partitions; each has a client of its own")
	flags.StringVar(&w.group, "group", "", "`name` of a stream group whose members the consumers are, with --sdk")
	flags.StringVar(&w.queue, "queue", "", "`name` of a queue group whose members the consumers are, with --sdk")
	flags.IntVar(&w.prefetch, "prefetch", 0, "messages that are leased to a member of --queue at a time (default: the client's)")
	flags.BoolVar(&w.reuse, "reuse", false, "use the memory of records again with the next call of Poll, with --sdk")
	flags.StringVar(&w.fetchSize, "fetch-size", "4MiB", "`size` that one request asks for")
}

// complete offers the values of flags to the shell.
func complete(cmd *cobra.Command) {
	for flag, values := range map[string][]string{
		"durability":  {"sync", "batch", "none"},
		"acks":        {"durable", "none"},
		"compression": {"none", "gzip", "snappy", "lz4", "zstd"},
	} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// validate reports every fault at once and fills in the rest.
func (w *workload) validate(cmd *cobra.Command) error {
	w.changed = cmd.Flags().Changed
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if size, err := core.ParseSize(w.recordSize); err != nil {
		fault("--record-size: %w", err)
	} else if size < payload.MarkBytes || size > recordBytesMax {
		fault("--record-size %s: %d bytes to %v are allowed; each record carries a mark of %d bytes to be verified by", w.recordSize, payload.MarkBytes, core.Size(recordBytesMax), payload.MarkBytes)
	} else {
		w.recordBytes = int(size)
	}
	between := func(flag string, n, low, high int) {
		if n < low || n > high {
			fault("--%s %d: %d to %d is allowed", flag, n, low, high)
		}
	}
	between("batch-records", w.batchRecords, 1, batchMax)
	between("connections", w.connections, 1, connectionsMax)
	between("in-flight", w.inFlight, 1, load.InFlightMax)
	if int64(w.batchRecords)*int64(w.recordBytes) > 1<<30 {
		fault("--batch-records %d of --record-size %s: a batch is smaller than 1 GiB", w.batchRecords, w.recordSize)
	}
	var err error
	if w.codec, err = proto.ParseCodec(w.compression); err != nil {
		fault("--compression %q: allowed are none, gzip, snappy, lz4 and zstd", w.compression)
	}
	switch w.durability {
	case "", "sync", "batch", "none":
	default:
		fault("--durability %q: allowed are sync, batch and none", w.durability)
	}
	switch w.acksText {
	case "durable", "": // a command without the flag
		w.acks = proto.AcksDurable
	case "none":
		w.acks = proto.AcksNone
	default:
		fault("--acks %q: allowed are durable and none", w.acksText)
	}
	if w.fetchSize != "" { // a command with the flag
		size, err := core.ParseSize(w.fetchSize)
		if err != nil || size < 1 || size > fetchBytesMax {
			fault("--fetch-size %s: a size up to %v is allowed", w.fetchSize, core.Size(fetchBytesMax))
		}
		w.fetchBytes = int(size)
	}
	if w.rate < 0 || w.rate > 1e12 {
		fault("--rate %v: 0 for flat out, or records per second up to a million million", w.rate)
	}
	if w.records < 0 {
		fault("--records %d: it is at least 1, or left out", w.records)
	}
	if w.duration <= 0 {
		fault("--duration %v: it is more than 0", w.duration)
	}
	if w.topic == "" {
		fault("--topic is empty: name a topic")
	}
	if strings.TrimPrefix(w.brokers, "mq://") == "" {
		fault("--brokers is empty: give HOST:PORT")
	}
	faults = append(faults, w.validateClient()...)
	if len(faults) > 0 {
		return usageError{errors.Join(faults...)}
	}
	if w.changed("records") && !w.changed("duration") {
		w.duration = 0
	}
	var run [8]byte
	_, _ = rand.Read(run[:]) // it never fails
	w.run = payload.Run(binary.BigEndian.Uint64(run[:]))
	w.clock = load.NewClock()
	w.environment = report.NewEnvironment(core.Version, w.dataFolder)
	return nil
}

// validateClient refuses flags that mean nothing for the client chosen.
func (w *workload) validateClient() (faults []error) {
	refuse := func(flag, why string) {
		if w.changed(flag) {
			faults = append(faults, fmt.Errorf("--%s %s", flag, why))
		}
	}
	if !w.sdk {
		refuse("producers", "is for --sdk: raw load has --connections")
		refuse("consumers", "is for --sdk: raw load has --connections")
		refuse("reuse", "is for --sdk: raw load keeps no records")
		refuse("queue", "is for --sdk: members of a group are consumers of the Go client")
		refuse("group", "is for --sdk: members of a group are consumers of the Go client")
		return faults
	}
	refuse("fetch-size", "is for raw load: the Go client has its own")
	refuse("connections", "is for raw load: with --sdk it is --producers and --consumers")
	if w.queue == "" {
		refuse("prefetch", "is for --queue")
	} else {
		if w.prefetch < 0 || w.prefetch > prefetchMax {
			faults = append(faults, fmt.Errorf("--prefetch %d: up to %d is allowed", w.prefetch, prefetchMax))
		}
		refuse("group", "is a stream group and --queue a queue group: give one of them")
		refuse("reuse", "is for consumers that read in order: a message of --queue is good until it is settled")
	}
	if w.acks == proto.AcksNone {
		faults = append(faults, errors.New("--acks none is for raw load: the Go client always waits for acknowledgements"))
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"producers", w.producers}, {"consumers", w.consumers}} {
		if w.changed(n.flag) && (n.value < 1 || n.value > connectionsMax) {
			faults = append(faults, fmt.Errorf("--%s %d: 1 to %d is allowed", n.flag, n.value, connectionsMax))
		}
	}
	return faults
}

// topicSpec is the topic that the flags ask for.
func (w *workload) topicSpec() load.TopicSpec {
	return load.TopicSpec{Name: w.topic, Partitions: w.partitions, Replicas: w.replicas, Durability: w.durability}
}

// senders is how many producers write down what they send.
func (w *workload) senders() int {
	if w.sdk {
		return w.producers
	}
	return w.connections
}

// sdkBatchRecords is what the Go client is told; 0 leaves it its default.
func (w *workload) sdkBatchRecords() int {
	if w.changed("batch-records") {
		return w.batchRecords
	}
	return 0
}

// sdkInFlight is what the Go client is told; 0 leaves it its default.
func (w *workload) sdkInFlight() int {
	if w.changed("in-flight") {
		return w.inFlight
	}
	return 0
}
