package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

const (
	// peekMax bounds the letters that one peek shows.
	peekMax = 10_000
	// peekCellBytes is how much of a key, a value or a reason a table shows.
	peekCellBytes = 60
)

// peekFlags are the flags of dlq peek.
type peekFlags struct {
	topic     string
	partition uint32
	from      string
	count     int
	filters   []string

	partitionGiven bool
}

// peekedLetter is a letter in JSON output of peek, around the record.
type peekedLetter struct {
	Topic     string `json:"topic"`
	Partition uint32 `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Group     string `json:"group"`
	Attempts  uint32 `json:"attempts"`
	Reason    string `json:"reason"`
	Text      string `json:"text"`
}

func newDLQPeek(s *session) *cobra.Command {
	var f peekFlags
	cmd := &cobra.Command{
		Use:   "peek TOPIC",
		Short: "Show dead letters, and consume none",
		Long: `Shows the oldest letters of a dead-letter topic: where each record was, which group gave it
up after how many attempts and why, and the record. Nothing is committed or changed.

A table shows the beginnings of keys, values and reasons; -o json shows each record whole,
as consume does, with its provenance in dead_letter, which is null for a record that no
queue group wrote.

` + filterHelp,
		Example: `  pulsectl dlq peek orders.dead
  pulsectl dlq peek orders.dead --filter reason=rejected -n 100 -o json
  pulsectl dlq peek orders.dead --from @-1h`,
		Args:              oneArgument("TOPIC"),
		ValidArgsFunction: s.deadLetterNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.topic, f.partitionGiven = args[0], cmd.Flags().Changed("partition")
			return s.peek(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.Uint32VarP(&f.partition, "partition", "p", 0, "look at one partition (default: all)")
	flags.StringVar(&f.from, "from", "start", "where to begin: start, end, OFFSET or @TIME of the burial")
	flags.IntVarP(&f.count, "count", "n", 10, "how many letters to show")
	flags.StringArrayVar(&f.filters, "filter", nil, "only letters that have NAME=VALUE; repeatable")
	return cmd
}

func (s *session) peek(ctx context.Context, f *peekFlags) error {
	if f.count < 1 || f.count > peekMax {
		return usagef("-n %d: allowed is 1 to %d; consume shows any number", f.count, peekMax)
	}
	filters, err := parseFilters(f.filters)
	if err != nil {
		return err
	}
	from, err := parseFrom(f.from, time.Now())
	if err != nil {
		return err
	}
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	consumer, err := client.NewConsumer(pulsemq.ConsumerStopAtEnd(), pulsemq.ConsumerSkipCorrupt(true))
	if err != nil {
		return err
	}
	defer consumer.Close()
	if err := s.assign(ctx, consumer, &consumeFlags{topic: f.topic, partition: f.partition, partitionGiven: f.partitionGiven}, from); err != nil {
		return err
	}
	show := newPeekPrinter(s)
	for left := f.count; left > 0; {
		records, err := consumer.Poll(ctx)
		if errors.Is(err, pulsemq.ErrEndOfLog) {
			break
		}
		if lost := (*pulsemq.PartitionError)(nil); errors.As(err, &lost) && !lost.Stopped {
			fmt.Fprintf(s.err, "pulsectl: %s; skipped\n", s.tell(err))
			continue
		}
		if err != nil {
			return errors.Join(err, show.finish())
		}
		for i := range records {
			l := letterOf(&records[i])
			if left == 0 || !allHold(filters, &l) {
				continue
			}
			left--
			if err := show.print(&l); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
	}
	return show.finish()
}

// peekPrinter shows letters: as lines at once, or as a table at the end.
type peekPrinter struct {
	session *session
	lines   *recordLines
	rows    [][]string
}

func newPeekPrinter(s *session) *peekPrinter {
	return &peekPrinter{session: s, lines: newRecordLines(s.out)}
}

func (p *peekPrinter) print(l *letter) error {
	if p.session.output == outputJSON {
		if l.foreign != nil {
			return p.lines.printWith(l.Record, "dead_letter", nil)
		}
		o := &l.provenance
		return p.lines.printWith(l.Record, "dead_letter", &peekedLetter{o.Topic, o.Partition, o.Offset, o.Timestamp, o.Group, o.Attempts, o.Reason, o.Text})
	}
	origin, group, attempts, reason := "-", "-", "-", "no dead letter: "
	if l.foreign != nil {
		reason += l.foreign.Error()
	} else {
		o := &l.provenance
		origin = fmt.Sprintf("%s/%d@%d", cell([]byte(o.Topic)), o.Partition, o.Offset)
		group, attempts, reason = cell([]byte(o.Group)), strconv.FormatUint(uint64(o.Attempts), 10), o.Reason
		if o.Text != "" {
			reason += ": " + o.Text
		}
	}
	p.rows = append(p.rows, []string{fmt.Sprintf("%d@%d", l.Partition, l.Offset), l.Timestamp.UTC().Format(time.RFC3339),
		origin, group, attempts, cell([]byte(reason)), cell(l.Key), cell(l.Value)})
	return nil
}

func (p *peekPrinter) finish() error {
	if p.session.output == outputJSON {
		return p.lines.flush()
	}
	return p.session.table([]string{"LETTER", "BURIED", "WAS", "GROUP", "ATTEMPTS", "REASON", "KEY", "VALUE"}, p.rows)
}

// cell is the beginning of some bytes on one line of a terminal: - for null, quoted when they are not plain text.
func cell(b []byte) string {
	if b == nil {
		return "-"
	}
	more := ""
	if len(b) > peekCellBytes {
		b, more = b[:peekCellBytes], "..."
	}
	text := string(b)
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` || text == "" || text == "-" {
		text = quoted
	}
	return text + more
}
