package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

func newCompare(s *session) *cobra.Command {
	b := &bench{session: s}
	w := new(workload)
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Measure producing as a share of what this machine can do",
		Long: `Runs the same load in turns against an echo server, which reads every batch and acknowledges
it without doing anything with it, and against a broker: echo, broker, echo, broker. Each
pair is one ratio. The client is the same on both sides, and what the broker took is read
back and verified.

The echo server and, unless --brokers names one that runs, the broker are processes that
compare starts and ends itself.

pulsebench table measures a whole set of such workloads.`,
		Example: `  pulsebench compare --partitions 128 --durability sync
  pulsebench compare --partitions 128 --durability sync --batch-records 1 --connections 64 --in-flight 32
  pulsebench compare --brokers 127.0.0.1:9090 --admin 127.0.0.1:9080 --runs 3`,
		Args: cobra.NoArgs,
	}
	// The load's flags are those of produce, but for what compare decides itself.
	load := &cobra.Command{Use: "produce"}
	w.addShared(load)
	w.addSending(load)
	taken := map[string]bool{"brokers": true, "admin": true, "topic": true, "duration": true, "records": true, "json": true, "hdr": true, "data-dir": true, "acks": true}
	load.Flags().VisitAll(func(f *pflag.Flag) {
		if !taken[f.Name] {
			cmd.Flags().AddFlag(f)
		}
	})
	b.addFlags(cmd)
	cmd.Flags().StringVar(&jsonFile, "json", "", "`file` for the result as JSON; - is standard output, and the table goes to standard error")
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		args := []string{"produce"}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if load.Flags().Lookup(f.Name) == f {
				args = append(args, "--"+f.Name+"="+f.Value.String())
			}
		})
		if err := b.validate(); err != nil {
			return err
		}
		checked, err := b.workload(args)
		if err != nil {
			return err
		}
		if err := b.findProgram(); err != nil {
			return err
		}
		return b.compare(cmd.Context(), args, max(int(checked.partitions), 1), jsonFile)
	}
	return cmd
}

func (b *bench) compare(ctx context.Context, args []string, partitions int, jsonFile string) error {
	out := report.NewComparison("Broker against echo", b.runs, b.duration, report.NewEnvironment(core.Version, b.folder))
	out.BrokerArguments = b.brokerArguments()
	row := report.Row{Name: "produce", Workload: report.CommandLine(args)}
	if err := b.pairs(ctx, &row, args, partitions); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	out.Rows = append(out.Rows, row)
	if b.seen != nil {
		out.Environment.Broker = *b.seen
	}
	return b.write(jsonFile, out)
}
