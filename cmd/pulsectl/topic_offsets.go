package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// partitionOffsets is a partition in JSON output of offsets.
type partitionOffsets struct {
	Topic          string `json:"topic"`
	Partition      uint32 `json:"partition"`
	LogStartOffset int64  `json:"log_start_offset"`
	HighWatermark  int64  `json:"high_watermark"`
	LogEndOffset   int64  `json:"log_end_offset"`
	SizeBytes      uint64 `json:"size_bytes"`
}

// partitionOffsetsAt is the same with --at.
type partitionOffsetsAt struct {
	partitionOffsets
	Offset *int64 `json:"offset"` // null: no record is that late
}

func newTopicOffsets(s *session) *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "offsets NAME",
		Short: "Show the offsets that each partition holds",
		Long: `Shows the first offset kept, the high watermark (consumers see what is below it), the
end of the log, and the size of each partition.

With --at it also shows the offset of the first record whose time is at or after TIME,
exact to the record. TIME is RFC 3339, a time back from now (-1h) or Unix milliseconds.`,
		Example: `  pulsectl topic offsets orders
  pulsectl topic offsets orders --at -1h
  pulsectl topic offsets orders --at 2026-01-31T12:00:00Z -o json`,
		Args:              oneArgument("NAME"),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			var moment time.Time
			var atGiven bool
			if atGiven = cmd.Flags().Changed("at"); atGiven {
				var err error
				if moment, err = parseMoment("--at", at, time.Now()); err != nil {
					return err
				}
			}
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				return s.printOffsets(ctx, a, args[0], atGiven, moment)
			})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "also look up the first record at or after TIME")
	return cmd
}

func (s *session) printOffsets(ctx context.Context, a *pulsemq.Admin, topic string, withMoment bool, moment time.Time) error {
	d, err := a.DescribeTopic(ctx, topic)
	if err != nil {
		return err
	}
	found := map[uint32]*int64{}
	if withMoment {
		offsets, err := a.ListOffsets(ctx, topic, pulsemq.OffsetAtTime(moment))
		if err != nil {
			return err
		}
		for _, o := range offsets {
			if o.Err != nil {
				return fmt.Errorf("partition %d: %w", o.Partition, o.Err)
			}
			if o.Found() {
				found[o.Partition] = &o.Offset
			}
		}
	}
	lines := newJSONLines(s.out)
	rows := make([][]string, 0, len(d.Partitions))
	for _, p := range d.Partitions {
		if p.Err != nil {
			return fmt.Errorf("partition %d: %w", p.Number, p.Err)
		}
		one := partitionOffsets{topic, p.Number, p.LogStartOffset, p.HighWatermark, p.LogEndOffset, p.SizeBytes}
		if s.output == outputJSON {
			var v any = one
			if withMoment {
				v = partitionOffsetsAt{one, found[p.Number]}
			}
			if err := lines.print(v); err != nil {
				return err
			}
			continue
		}
		row := []string{
			strconv.FormatUint(uint64(p.Number), 10), strconv.FormatInt(p.LogStartOffset, 10), strconv.FormatInt(p.HighWatermark, 10),
			strconv.FormatInt(p.LogEndOffset, 10), strconv.FormatUint(p.SizeBytes, 10),
		}
		if withMoment {
			text := "none"
			if offset := found[p.Number]; offset != nil {
				text = strconv.FormatInt(*offset, 10)
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	if s.output == outputJSON {
		return lines.flush()
	}
	header := []string{"PARTITION", "LOG START", "HIGH WATERMARK", "LOG END", "BYTES"}
	if withMoment {
		header = append(header, "AT "+moment.UTC().Format(time.RFC3339))
	}
	return s.table(header, rows)
}
