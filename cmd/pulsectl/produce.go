package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// sentWaitingMax bounds the messages whose results have not been printed yet.
const sentWaitingMax = 1 << 16

// produceFlags are the flags of produce.
type produceFlags struct {
	topic        string
	key          string
	keySeparator string
	nullValue    string
	partition    uint32
	headers      []string
	timestamp    int64
	compression  string

	keyGiven, separatorGiven, nullGiven, partitionGiven, timestampGiven bool
}

func newProduce(s *session) *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send each line of standard input as a message",
		Long: `Sends each line of standard input as one message and waits until all are stored. A line
is any bytes up to a newline, which is not part of the message; an empty line is a
message with an empty value.

Without a key messages are spread over the partitions; messages with the same key go to
the same partition. With -o json one object is printed per message, in the order of the
input, with the durability that was reached.`,
		Example: `  echo hello | pulsectl produce orders
  printf 'k1:v1\nk2:v2\n' | pulsectl produce orders --key-separator :
  pulsectl produce orders -k customer-7 -H trace=abc -H trace=def < messages.txt
  pulsectl produce orders --compression zstd -o json < messages.txt`,
		Args:              oneArgument("TOPIC"),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.topic = args[0]
			changed := cmd.Flags().Changed
			f.keyGiven, f.separatorGiven, f.nullGiven = changed("key"), changed("key-separator"), changed("null-value")
			f.partitionGiven, f.timestampGiven = changed("partition"), changed("timestamp")
			return s.produce(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.key, "key", "k", "", "key of every message")
	flags.StringVar(&f.keySeparator, "key-separator", "", "what separates key and value in each line")
	flags.StringVar(&f.nullValue, "null-value", "", "a value that is exactly this text is sent as null, which deletes the key in a compacted topic")
	flags.Uint32VarP(&f.partition, "partition", "p", 0, "partition of every message (default: by key, else spread)")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header of every message, NAME=VALUE; repeatable, also with one name")
	flags.Int64Var(&f.timestamp, "timestamp", 0, "time of every message in Unix milliseconds (default: now)")
	flags.StringVar(&f.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	_ = cmd.RegisterFlagCompletionFunc("compression", cobra.FixedCompletions([]string{"none", "gzip", "snappy", "lz4", "zstd"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// template is the message that every line fills in.
func (f *produceFlags) template() (pulsemq.Message, error) {
	m := pulsemq.Message{Topic: f.topic}
	if f.keyGiven {
		m.Key = []byte(f.key)
	}
	if f.keyGiven && f.separatorGiven {
		return m, usagef("--key and --key-separator exclude each other: one gives all messages a key, the other takes it from each line")
	}
	if f.separatorGiven && f.keySeparator == "" {
		return m, usagef("--key-separator is empty: give the text between key and value")
	}
	if f.partitionGiven {
		m.Partition = pulsemq.PartitionNumber(f.partition)
	}
	if f.timestampGiven {
		if f.timestamp < 0 {
			return m, usagef("--timestamp %d: Unix milliseconds are 0 or more", f.timestamp)
		}
		m.Timestamp = time.UnixMilli(f.timestamp)
	}
	for _, text := range f.headers {
		name, value, err := splitPair("--header", text)
		if err != nil {
			return m, err
		}
		m.Headers = append(m.Headers, pulsemq.Header{Key: name, Value: []byte(value)})
	}
	return m, nil
}

// fill puts a line into the message.
func (f *produceFlags) fill(m *pulsemq.Message, line []byte) error {
	m.Value = line
	if f.separatorGiven {
		key, value, found := bytes.Cut(line, []byte(f.keySeparator))
		if !found {
			return fmt.Errorf("it has no %q between key and value", f.keySeparator)
		}
		m.Key, m.Value = key, value
		if key == nil { // an empty key is not a null one
			m.Key = []byte{}
		}
	}
	if f.nullGiven && string(m.Value) == f.nullValue {
		m.Value = nil
	} else if m.Value == nil {
		m.Value = []byte{}
	}
	return nil
}

func (s *session) produce(ctx context.Context, f *produceFlags) error {
	message, err := f.template()
	if err != nil {
		return err
	}
	codec, err := pulsemq.ParseCompression(f.compression)
	if err != nil {
		return usagef("--compression %q: allowed are none, gzip, snappy, lz4 and zstd", f.compression)
	}
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	producer, err := client.NewProducer(pulsemq.ProducerCompression(codec))
	if err != nil {
		return err
	}
	printer := newReceipts(s)
	readErr := s.sendLines(ctx, producer, f, &message, printer)
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	closeErr := producer.Close(closeCtx)
	printErr := printer.finish()
	return errors.Join(readErr, printErr, closeErr)
}

// sendLines sends until the input ends, a line is wrong, or a message failed.
func (s *session) sendLines(ctx context.Context, producer *pulsemq.Producer, f *produceFlags, m *pulsemq.Message, printer *receipts) error {
	lines := newLineReader(s.in)
	for !printer.failed() {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		if err := f.fill(m, line); err != nil {
			return fmt.Errorf("line %d: %w", lines.number, err)
		}
		receipt := printer.expect(lines.number)
		if err := producer.SendAsync(ctx, m, receipt.done); err != nil {
			receipt.done(pulsemq.Result{}, err)
			return nil // the printer reports it with its line
		}
	}
	return nil
}
