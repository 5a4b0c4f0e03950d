package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// queueDiscardFlags are the flags of queue discard.
type queueDiscardFlags struct {
	group, topic string
	partition    uint32
	offset       int64
	execute      bool

	partitionGiven, offsetGiven bool
}

// discardedPartition is a partition in JSON output of discard: how many dead records it had,
// of those that were asked for.
type discardedPartition struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition uint32 `json:"partition"`
	Dead      uint64 `json:"dead"`
	Executed  bool   `json:"executed"`
}

func newQueueDiscard(s *session) *cobra.Command {
	var f queueDiscardFlags
	cmd := &cobra.Command{
		Use:   "discard GROUP --topic TOPIC",
		Short: "Take dead records out of a queue group",
		Long: `Records whose deliveries are used up, or that were rejected, stay dead in their partition when
its topic has no dead-letter topic. Shows how many there are, and takes them out with
--execute: the group counts them as settled. The records themselves stay in the topic.

--offset fails when that record is not dead. Of one behind the oldest that queue describe
lists, this is known with --execute only.`,
		Example: `  pulsectl queue discard mails --topic orders
  pulsectl queue discard mails --topic orders -p 0 --offset 17 --execute`,
		Args: oneArgument("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.group = args[0]
			f.partitionGiven, f.offsetGiven = cmd.Flags().Changed("partition"), cmd.Flags().Changed("offset")
			switch {
			case f.topic == "":
				return usagef("--topic is missing: say which topic")
			case f.offsetGiven && !f.partitionGiven:
				return usagef("--offset wants -p: say which partition")
			case f.offsetGiven && f.offset < 0:
				return usagef("--offset %d: an offset is 0 or more", f.offset)
			}
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error { return s.discardDead(ctx, a, &f) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the topic")
	flags.Uint32VarP(&f.partition, "partition", "p", 0, "one partition (default: all)")
	flags.Int64Var(&f.offset, "offset", 0, "one record (default: all that are dead)")
	flags.BoolVar(&f.execute, "execute", false, "do it; without, it is only shown")
	return cmd
}

func (s *session) discardDead(ctx context.Context, a *pulsemq.Admin, f *queueDiscardFlags) error {
	if err := wantQueueGroup(ctx, a, f.group); err != nil {
		return err
	}
	d, err := a.DescribeTopic(ctx, f.topic)
	if err != nil {
		return err
	}
	if f.partitionGiven && int(f.partition) >= len(d.Partitions) {
		return usagef("-p %d: topic %s has %s", f.partition, f.topic, counted(len(d.Partitions), "partition"))
	}
	list, err := a.DescribeQueue(ctx, f.group)
	if err != nil {
		return err
	}
	var all []discardedPartition
	total := uint64(0)
	for _, p := range list {
		if p.Topic != f.topic || f.partitionGiven && p.Partition != f.partition || p.Dead == 0 {
			continue
		}
		if p.Err != nil {
			return fmt.Errorf("partition %d: %w", p.Partition, p.Err)
		}
		base, next, dead := p.LowOffset, p.HighOffset, p.Dead
		if f.offsetGiven {
			base, next, dead = f.offset, f.offset+1, 1
			if knownNotDead(&p, f.offset) {
				continue
			}
		}
		if f.execute {
			n, err := a.DiscardDead(ctx, f.group, f.topic, p.Partition, base, next)
			if err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			dead = uint64(n)
		}
		if dead == 0 {
			continue // others were faster
		}
		total += dead
		all = append(all, discardedPartition{f.group, f.topic, p.Partition, dead, f.execute})
	}
	if f.offsetGiven && len(all) == 0 {
		return fmt.Errorf("topic %q partition %d: the record at offset %d is not dead in group %q: nothing was changed", f.topic, f.partition, f.offset, f.group)
	}
	if s.output == outputJSON {
		return printJSON(s, all...)
	}
	for _, p := range all {
		fmt.Fprintf(s.out, "partition %d: %s\n", p.Partition, counted(int(p.Dead), "dead record"))
	}
	if f.execute {
		fmt.Fprintf(s.out, "discarded %s\n", counted(int(total), "record"))
	} else {
		fmt.Fprintln(s.out, "nothing was changed: --execute takes them out")
	}
	return nil
}

// knownNotDead says whether a record cannot be dead by what was described: it is outside of the window, it is in or between
// the oldest that are not settled, or all that are dead are among them.
func knownNotDead(p *pulsemq.QueuePartition, offset int64) bool {
	dead := uint64(0)
	for _, b := range p.Blockers {
		if b.Offset >= offset {
			return b.Offset > offset || b.State != pulsemq.QueueDead
		}
		if b.State == pulsemq.QueueDead {
			dead++
		}
	}
	return offset < p.LowOffset || offset >= p.HighOffset || dead == p.Dead
}
