package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// groupSeekFlags are the flags of group seek.
type groupSeekFlags struct {
	group, topic, to string
	partition        uint32
	shift            int64
	execute, force   bool
	create           bool

	toGiven, shiftGiven, partitionGiven bool
}

// soughtPartition is a partition in JSON output of seek.
type soughtPartition struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition uint32 `json:"partition"`
	Committed int64  `json:"committed"` // before; -1: nothing
	Offset    int64  `json:"offset"`
	Executed  bool   `json:"executed"`
}

func newGroupSeek(s *session) *cobra.Command {
	var f groupSeekFlags
	cmd := &cobra.Command{
		Use:   "seek GROUP --topic TOPIC (--to PLACE | --shift N)",
		Short: "Set how far a group has come, also back",
		Long: `Shows what would be committed, and commits it with --execute. --to is start, end, an offset,
or @TIME: RFC 3339, a time back from now (@-1h) or Unix milliseconds. --shift moves each
committed offset by N, which may be negative. Offsets outside of what a partition holds
become the nearest that it does.

A group that does not exist is refused; --create lets it begin at the new place, as a stream
group that has no members yet.

The group must have no members; --force removes them first. They may join again, and go on
at the new place.`,
		Example: `  pulsectl group seek billing --topic orders --to start
  pulsectl group seek billing --topic orders --to @-1h --execute
  pulsectl group seek billing --topic orders --shift -100 --execute`,
		Args: oneArgument("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.group = args[0]
			f.toGiven, f.shiftGiven, f.partitionGiven = cmd.Flags().Changed("to"), cmd.Flags().Changed("shift"), cmd.Flags().Changed("partition")
			switch {
			case f.topic == "":
				return usagef("--topic is missing: say which topic")
			case f.toGiven == f.shiftGiven:
				return usagef("exactly one of --to and --shift is given")
			}
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error { return s.seekGroup(ctx, a, &f) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the topic")
	flags.Uint32VarP(&f.partition, "partition", "p", 0, "one partition (default: all)")
	flags.StringVar(&f.to, "to", "", "where to: start, end, OFFSET or @TIME")
	flags.Int64Var(&f.shift, "shift", 0, "move by so many offsets")
	flags.BoolVar(&f.execute, "execute", false, "do it; without, it is only shown")
	flags.BoolVar(&f.create, "create", false, "a group that does not exist is made")
	flags.BoolVar(&f.force, "force", false, "remove the members that the group has")
	return cmd
}

func (s *session) seekGroup(ctx context.Context, a *pulsemq.Admin, f *groupSeekFlags) error {
	place, err := parsePlace("--to", f.to, time.Now())
	if f.toGiven && err != nil {
		return err
	}
	if _, err := a.DescribeGroup(ctx, f.group); err != nil && !(f.create && errors.Is(err, pulsemq.ErrUnknownGroup)) {
		if errors.Is(err, pulsemq.ErrUnknownGroup) {
			err = fmt.Errorf("%w; --create makes it", err)
		}
		return err
	}
	d, err := a.DescribeTopic(ctx, f.topic)
	if err != nil {
		return err
	}
	committed := map[uint32]int64{}
	offsets, err := a.GroupOffsets(ctx, f.group)
	if err != nil {
		return err
	}
	for _, o := range offsets {
		if o.Topic == f.topic && o.Committed >= 0 {
			committed[o.Partition] = o.Committed
		}
	}
	timed := map[uint32]int64{}
	if f.toGiven && place.spec != nil {
		found, err := a.ListOffsets(ctx, f.topic, *place.spec)
		if err != nil {
			return err
		}
		for _, o := range found {
			if o.Err != nil {
				return fmt.Errorf("partition %d: %w", o.Partition, o.Err)
			}
			if o.Found() {
				timed[o.Partition] = o.Offset
			}
		}
	}
	targets := map[uint32]int64{}
	for _, p := range d.Partitions {
		if f.partitionGiven && p.Number != f.partition {
			continue
		}
		if p.Err != nil {
			return fmt.Errorf("partition %d: %w", p.Number, p.Err)
		}
		target := place.offset
		switch at, known := timed[p.Number]; {
		case f.shiftGiven:
			before, has := committed[p.Number]
			if !has {
				continue // there is nothing to shift
			}
			target = before + f.shift
		case place.spec != nil && known:
			target = at
		case place.spec != nil:
			target = p.HighWatermark
		}
		targets[p.Number] = min(max(target, p.LogStartOffset), p.HighWatermark)
	}
	if f.partitionGiven && int(f.partition) >= len(d.Partitions) {
		return usagef("-p %d: topic %s has %s", f.partition, f.topic, counted(len(d.Partitions), "partition"))
	}
	if f.execute && len(targets) > 0 {
		if err := a.SeekGroup(ctx, f.group, f.topic, targets, f.force); err != nil {
			return err
		}
	}
	return s.printSought(f, targets, committed)
}

func (s *session) printSought(f *groupSeekFlags, targets, committed map[uint32]int64) error {
	var all []soughtPartition
	var rows [][]string
	for _, number := range slices.Sorted(maps.Keys(targets)) {
		before, has := committed[number]
		if !has {
			before = -1
		}
		all = append(all, soughtPartition{f.group, f.topic, number, before, targets[number], f.execute})
		rows = append(rows, []string{strconv.FormatUint(uint64(number), 10), strconv.FormatInt(before, 10), strconv.FormatInt(targets[number], 10)})
	}
	if s.output == outputJSON {
		return printJSON(s, all...)
	}
	if err := s.table([]string{"PARTITION", "COMMITTED", "NEW"}, rows); err != nil {
		return err
	}
	if !f.execute {
		fmt.Fprintln(s.out, "nothing was changed: --execute does it")
	}
	return nil
}

// groupPlace is where --to leads: an offset, or what is looked up.
type groupPlace struct {
	offset int64
	spec   *pulsemq.OffsetSpec
}

func parsePlace(flag, text string, now time.Time) (groupPlace, error) {
	look := func(spec pulsemq.OffsetSpec) (groupPlace, error) { return groupPlace{spec: &spec}, nil }
	switch {
	case text == "start":
		return look(pulsemq.OffsetEarliest())
	case text == "end":
		return look(pulsemq.OffsetLatest())
	case len(text) > 1 && text[0] == '@':
		t, err := parseMoment(flag+" @TIME", text[1:], now)
		if err != nil {
			return groupPlace{}, err
		}
		return look(pulsemq.OffsetAtTime(t))
	}
	offset, err := strconv.ParseInt(text, 10, 64)
	if err != nil || offset < 0 {
		return groupPlace{}, usagef("%s %q: allowed are start, end, an offset of 0 or more, and @TIME, such as @-1h", flag, text)
	}
	return groupPlace{offset: offset}, nil
}
