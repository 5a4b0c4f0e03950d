package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ceiling"
)

// loopsDefault is how many event loops the broker has by default: the processors that are not shards.
func loopsDefault() int { return max(runtime.NumCPU()-max(runtime.NumCPU()/2, 1), 1) }

func newEcho(s *session) *cobra.Command {
	var listen string
	var loops, partitions int
	var records int64
	cmd := &cobra.Command{
		Use:   "echo",
		Short: "Serve acknowledgements for nothing: the other side of ceiling and compare",
		Long: `Serves until it is interrupted, and acknowledges every batch as soon as it has been read. It
keeps nothing, and answers readers out of memory. Every topic exists, with as many partitions
as --partitions says, each with --records records. Standard error has a line of JSON that
says where it listens.

pulsebench ceiling and compare start it by themselves, as a process of its own.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if loops < 1 || loops > 64 || partitions < 1 || partitions > 1<<16 || records < 0 || records > 1<<40 {
				return usagef("--loops %d is 1 to 64, --partitions %d is 1 to 65536, --records %d is 0 to 2^40", loops, partitions, records)
			}
			return ceiling.Serve(cmd.Context(), s.err, ceiling.EchoSpec{Address: listen, Loops: loops, Partitions: partitions, Records: records})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	cmd.Flags().IntVar(&loops, "loops", loopsDefault(), "event loops")
	cmd.Flags().Int64Var(&records, "records", 0, "records of 256 bytes that readers find in each partition, rounded up to batches of 1000")
	cmd.Flags().IntVar(&partitions, "partitions", 128, "partitions of every topic")
	return cmd
}
