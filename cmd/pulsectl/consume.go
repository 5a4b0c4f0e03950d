package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// consumeFlags are the flags of consume.
type consumeFlags struct {
	topic     string
	partition uint32
	from      string
	count     int64
	follow    bool
	format    string
	skip      bool
	group     string
	ack       string
	queue     bool

	partitionGiven, countGiven bool
}

func newConsume(s *session) *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print the messages of a topic",
		Long: `Prints messages from a place on. Without -n or --follow it stops at what was the end of
the log when it got there; with -n it waits until so many have come; with --follow it goes
on until it is interrupted.

With -g it is a member of a consumer group: it shares the partitions with the group's other
members, goes on where the group has committed, and commits what it has printed, each second
and when it ends (--ack none commits nothing). It waits for more until it is interrupted or
-n have come. --from is for partitions that the group has never committed to.

With --queue the group is a queue group: its members share all partitions, and each message
goes to one of them. It is acknowledged once it is printed, or with --ack none before that;
one that was not acknowledged when its member died comes again.

Records that the disk has lost end it with an error that names their offsets;
--skip-damaged says so on standard error and goes on behind them.

--from is start, end, an offset, or @TIME: RFC 3339 (@2026-01-31T12:00:00Z), a time back
from now (@-1h) or Unix milliseconds.

--format prints each message by a pattern:
  %t topic        %p partition   %o offset         %e leader epoch
  %k key          %v value       %h headers        %s bytes of the value
  %T time in Unix milliseconds   %D time as RFC 3339
  %% a percent sign, \n newline, \t tab, \r return, \0 zero byte, \\ backslash
A null key or value is printed as nothing. With -o json each message is one object in
which null and empty differ and bytes that are not UTF-8 stand in key_base64 and
value_base64.`,
		Example: `  pulsectl consume orders
  pulsectl consume orders -p 0 --from 1000 -n 10 --format '%o %k %v\n'
  pulsectl consume orders --from @-1h -o json
  pulsectl consume orders --from end --follow
  pulsectl consume orders -g billing -n 100
  pulsectl consume orders -g mails --queue`,
		Args:              oneArgument("TOPIC"),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.topic = args[0]
			f.partitionGiven, f.countGiven = cmd.Flags().Changed("partition"), cmd.Flags().Changed("count")
			switch {
			case f.group == "" && cmd.Flags().Changed("ack"):
				return usagef("--ack is for members of a group: give -g GROUP")
			case f.group == "" && f.queue:
				return usagef("--queue is for members of a group: give -g GROUP")
			case f.ack != "auto" && f.ack != "none":
				return usagef("--ack %q: allowed are auto and none", f.ack)
			case f.group != "" && f.partitionGiven:
				return usagef("-g and -p exclude each other: the group says who reads which partition")
			}
			if cmd.Flags().Changed("format") && s.output == outputJSON {
				return usagef("--format and -o json exclude each other")
			}
			return s.consume(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.Uint32VarP(&f.partition, "partition", "p", 0, "read one partition (default: all)")
	flags.StringVar(&f.from, "from", "start", "where to begin: start, end, OFFSET or @TIME")
	flags.Int64VarP(&f.count, "count", "n", 0, "stop after so many messages")
	flags.BoolVar(&f.follow, "follow", false, "wait for more at the end of the log")
	flags.BoolVar(&f.skip, "skip-damaged", false, "go on behind records that the disk has lost")
	flags.StringVar(&f.format, "format", `%v\n`, "how each message is printed")
	flags.StringVarP(&f.group, "group", "g", "", "read as a member of this consumer group")
	flags.StringVar(&f.ack, "ack", "auto", "with -g: auto commits what was printed, none commits nothing, or with --queue acknowledges before")
	flags.BoolVar(&f.queue, "queue", false, "with -g: the group is a queue group")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"start", "end"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// parseFrom reads the value of --from.
func parseFrom(text string, now time.Time) (pulsemq.Start, error) {
	switch text {
	case "start":
		return pulsemq.StartEarliest(), nil
	case "end":
		return pulsemq.StartLatest(), nil
	}
	if moment, isTime := strings.CutPrefix(text, "@"); isTime {
		t, err := parseMoment("--from @TIME", moment, now)
		return pulsemq.StartTime(t), err
	}
	offset, err := strconv.ParseInt(text, 10, 64)
	if err != nil || offset < 0 {
		return pulsemq.Start{}, usagef("--from %q: allowed are start, end, an offset of 0 or more, and @TIME, such as @-1h", text)
	}
	return pulsemq.StartOffset(offset), nil
}

// recordPrinter prints records one after the other.
type recordPrinter interface {
	print(*pulsemq.Record) error
	flush() error
}

func (s *session) consume(ctx context.Context, f *consumeFlags) error {
	from, err := parseFrom(f.from, time.Now())
	if err != nil {
		return err
	}
	if f.countGiven && f.count < 1 {
		return usagef("-n %d: at least 1", f.count)
	}
	var printer recordPrinter = newRecordLines(s.out)
	if s.output == outputTable {
		format, err := parseFormat(f.format)
		if err != nil {
			return err
		}
		printer = &formatPrinter{format: format, out: bufio.NewWriterSize(s.out, outputBufferBytes)}
	}
	if f.group != "" && f.queue {
		return s.consumeQueue(ctx, f, from, printer)
	}
	if f.group != "" {
		return s.consumeGroup(ctx, f, from, printer)
	}
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	options := []pulsemq.ConsumerOption{pulsemq.ConsumerSkipCorrupt(f.skip)}
	if !f.follow && !f.countGiven {
		options = append(options, pulsemq.ConsumerStopAtEnd())
	}
	consumer, err := client.NewConsumer(options...)
	if err != nil {
		return err
	}
	defer consumer.Close()
	if err := s.assign(ctx, consumer, f, from); err != nil {
		return err
	}
	err = s.printRecords(ctx, consumer, printer, f)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && f.follow {
		err = nil // an interrupt is how --follow ends
	}
	return errors.Join(err, printer.flush())
}

func (s *session) assign(ctx context.Context, consumer *pulsemq.Consumer, f *consumeFlags, from pulsemq.Start) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if f.partitionGiven {
		return consumer.AssignPartition(ctx, f.topic, f.partition, from)
	}
	return consumer.AssignTopic(ctx, f.topic, from)
}

// printRecords prints until the end that the flags ask for. A partition that
// cannot be read ends it: skipping silently would look like an empty log.
func (s *session) printRecords(ctx context.Context, consumer *pulsemq.Consumer, printer recordPrinter, f *consumeFlags) error {
	left := f.count
	for {
		records, err := consumer.Poll(ctx)
		if errors.Is(err, pulsemq.ErrEndOfLog) {
			return nil
		}
		if lost := (*pulsemq.PartitionError)(nil); errors.As(err, &lost) && errors.Is(err, pulsemq.ErrCorruptRecord) {
			if lost.Stopped {
				return err
			}
			if err := printer.flush(); err != nil { // so that both streams tell the same order
				return fmt.Errorf("write: %w", err)
			}
			fmt.Fprintf(s.err, "pulsectl: %s; skipped, reading goes on at offset %d\n", s.tell(err), lost.Next)
			continue
		}
		if err != nil {
			return err
		}
		for i := range records {
			if err := printer.print(&records[i]); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			if left--; f.countGiven && left == 0 {
				return nil
			}
		}
		if err := printer.flush(); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
}
