package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func newQueue(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Look at what queue groups have not settled, and take dead records out",
		Long: `The members of a queue group share partitions, and each message is settled on its own.
consume TOPIC -g GROUP --queue joins one; group list, lag, seek and delete are for queue
groups too.`,
		Args: noArgument,
	}
	cmd.AddCommand(newQueueDescribe(s), newQueueDiscard(s))
	return cmd
}

// queuePartition is a partition in JSON output of queue describe.
type queuePartition struct {
	Group         string         `json:"group"`
	Topic         string         `json:"topic"`
	Partition     uint32         `json:"partition"`
	Low           int64          `json:"low"`
	High          int64          `json:"high"`
	HighWatermark int64          `json:"end"`
	Available     uint64         `json:"available"`
	Leased        uint64         `json:"leased"`
	Delayed       uint64         `json:"delayed"`
	Dying         uint64         `json:"dying"`
	Dead          uint64         `json:"dead"`
	Window        uint64         `json:"window"`
	WindowMax     uint64         `json:"window_max"`
	Blockers      []queueBlocker `json:"blockers"`
}

// queueBlocker is one of the oldest records that are not settled. UntilMs is when its lease
// or its delay is over; -1 for neither.
type queueBlocker struct {
	Offset  int64  `json:"offset"`
	Attempt int    `json:"attempt"`
	State   string `json:"state"`
	Member  string `json:"member,omitempty"`
	UntilMs int64  `json:"until_ms"`
	Reason  string `json:"reason,omitempty"`
}

// queueOf gathers how a queue group stands.
func queueOf(ctx context.Context, a *pulsemq.Admin, group string) ([]queuePartition, error) {
	found, err := a.DescribeQueue(ctx, group)
	if err != nil {
		return nil, err
	}
	var list []queuePartition
	for _, p := range found {
		if p.Topic == "" || p.Err != nil {
			continue // the topic was deleted in this moment
		}
		one := queuePartition{group, p.Topic, p.Partition, p.LowOffset, p.HighOffset, p.HighWatermark, p.Available, p.Leased, p.Delayed, p.Dying, p.Dead,
			p.Window, p.WindowMax, []queueBlocker{}}
		for _, b := range p.Blockers {
			until := int64(-1)
			if !b.Until.IsZero() {
				until = b.Until.UnixMilli()
			}
			one.Blockers = append(one.Blockers, queueBlocker{b.Offset, b.Attempt, b.State.String(), b.MemberID, until, b.Reason})
		}
		list = append(list, one)
	}
	return list, nil
}

// wantQueueGroup refuses a group that does not exist, and one of the other kind: it has no records that wait, and would
// look as if all were well.
func wantQueueGroup(ctx context.Context, a *pulsemq.Admin, group string) error {
	d, err := a.DescribeGroup(ctx, group)
	if err != nil {
		return err
	}
	if d.Kind != pulsemq.GroupQueue {
		return pulsemq.ErrGroupKindMismatch.Errorf("group %q is a %s group, and this is for queue groups: group describe and group lag show it", group, kindName(d.Kind))
	}
	return nil
}

func newQueueDescribe(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "describe GROUP",
		Short: "Show what a queue group has not settled, by partition",
		Long: `Shows for each partition how many records can be leased, are leased, wait for a delay, are on
their way to the dead-letter topic and are dead, how much of the window is used, and the
oldest records that are not settled: they keep the offset back that the group counts as
committed.`,
		Example: "  pulsectl queue describe mails\n  pulsectl queue describe mails -o json",
		Args:    oneArgument("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				if err := wantQueueGroup(ctx, a, args[0]); err != nil {
					return err
				}
				list, err := queueOf(ctx, a, args[0])
				if err != nil {
					return err
				}
				if s.output == outputJSON {
					return printJSON(s, list...)
				}
				return s.queueTables(list)
			})
		},
	}
}

// queueTables prints the partitions, and what holds them.
func (s *session) queueTables(list []queuePartition) error {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	var rows, blockers [][]string
	for _, p := range list {
		rows = append(rows, []string{p.Topic, number(uint64(p.Partition)), strconv.FormatInt(p.Low, 10), strconv.FormatInt(p.High, 10), strconv.FormatInt(p.HighWatermark, 10),
			number(p.Available), number(p.Leased), number(p.Delayed), number(p.Dying), number(p.Dead), number(p.Window) + "/" + number(p.WindowMax)})
		for _, b := range p.Blockers {
			until := "-"
			if b.UntilMs >= 0 {
				until = time.UnixMilli(b.UntilMs).UTC().Format(time.RFC3339)
			}
			blockers = append(blockers, []string{p.Topic, number(uint64(p.Partition)), strconv.FormatInt(b.Offset, 10), b.State, strconv.Itoa(b.Attempt), until,
				cmp.Or(b.Member, "-"), cmp.Or(strings.ToValidUTF8(b.Reason, "?"), "-")})
		}
	}
	if err := s.table([]string{"TOPIC", "PARTITION", "LOW", "HIGH", "END", "AVAILABLE", "LEASED", "DELAYED", "DYING", "DEAD", "WINDOW"}, rows); err != nil || len(blockers) == 0 {
		return err
	}
	fmt.Fprintln(s.out, "\nThe oldest that are not settled:")
	return s.table([]string{"TOPIC", "PARTITION", "OFFSET", "STATE", "ATTEMPT", "UNTIL", "MEMBER", "REASON"}, blockers)
}
