package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// purged is what dlq purge says of a topic in JSON output.
type purged struct {
	Topic    string `json:"topic"`
	Records  int64  `json:"records"`
	Executed bool   `json:"executed"`
}

func newDLQPurge(s *session) *cobra.Command {
	var execute bool
	cmd := &cobra.Command{
		Use:   "purge TOPIC",
		Short: "Delete the dead letters of a topic",
		Long: `Shows how many letters a dead-letter topic holds, and deletes them with --execute: there is
no way back. Letters that arrive meanwhile stay. A topic that no other names as its
dead-letter topic is refused.`,
		Example: `  pulsectl dlq purge orders.dead
  pulsectl dlq purge orders.dead --execute`,
		Args:              oneArgument("TOPIC"),
		ValidArgsFunction: s.deadLetterNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error { return s.purge(ctx, a, args[0], execute) })
		},
	}
	cmd.Flags().BoolVar(&execute, "execute", false, "do it; without, it is only shown")
	return cmd
}

func (s *session) purge(ctx context.Context, a *pulsemq.Admin, topic string, execute bool) error {
	d, err := a.DescribeTopic(ctx, topic)
	if err != nil {
		return err
	}
	if err := mustBeDeadLetters(ctx, a, topic); err != nil {
		return err
	}
	done := purged{Topic: topic, Executed: execute}
	for _, p := range d.Partitions {
		if p.Err != nil {
			return fmt.Errorf("partition %d: %w", p.Number, p.Err)
		}
		if execute && p.HighWatermark > p.LogStartOffset {
			if _, err := a.DeleteRecords(ctx, topic, p.Number, p.HighWatermark); err != nil {
				return fmt.Errorf("partition %d: %w; %s of other partitions were deleted", p.Number, err, counted(done.Records, "letter"))
			}
		}
		done.Records += p.HighWatermark - p.LogStartOffset
	}
	if s.output == outputJSON {
		return printJSON(s, done)
	}
	if !execute {
		_, err = fmt.Fprintf(s.out, "topic %s holds %s; nothing was deleted: --execute does it\n", topic, counted(done.Records, "letter"))
		return err
	}
	_, err = fmt.Fprintf(s.out, "topic %s: %s deleted\n", topic, counted(done.Records, "letter"))
	return err
}
