package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func newTopicTrim(s *session) *cobra.Command {
	var partition uint32
	var before int64
	cmd := &cobra.Command{
		Use:   "trim NAME -p PARTITION --before OFFSET",
		Short: "Delete the records of a partition before an offset",
		Long: `Moves the start of a partition's log forward to OFFSET: records before it are gone when
the command returns, also after a crash. Their space is freed when whole segments are
behind the start. Works on a full disk.`,
		Example:           `  pulsectl topic trim orders -p 0 --before 1000`,
		Args:              oneArgument("NAME"),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if before < 0 {
				return usagef("--before %d: an offset is 0 or more", before)
			}
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				start, err := a.DeleteRecords(ctx, args[0], partition, before)
				if err != nil {
					return err
				}
				if s.output == outputJSON {
					return printJSON(s, struct {
						Topic          string `json:"topic"`
						Partition      uint32 `json:"partition"`
						LogStartOffset int64  `json:"log_start_offset"`
					}{args[0], partition, start})
				}
				_, err = fmt.Fprintf(s.out, "topic %s partition %d starts at offset %d\n", args[0], partition, start)
				return err
			})
		},
	}
	cmd.Flags().Uint32VarP(&partition, "partition", "p", 0, "the partition")
	cmd.Flags().Int64Var(&before, "before", 0, "the first offset to keep")
	_ = cmd.MarkFlagRequired("partition")
	_ = cmd.MarkFlagRequired("before")
	return cmd
}
