package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/core"
)

// Exit codes. Scripts rely on them.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

// streams are the standard streams of a call.
type streams struct {
	out, err io.Writer
}

// usageError is a call that cannot be right whatever the broker says.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// session is what every command of one call shares.
type session struct {
	streams
	started bool // the arguments were right and a command runs
}

// execute runs one call and returns its exit code.
func execute(ctx context.Context, s streams, args []string) int {
	call := &session{streams: s}
	root := newRoot(call)
	root.SetArgs(args)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(s.err, "pulsebench: %v\n", err)
	if usage := (usageError{}); errors.As(err, &usage) || !call.started {
		fmt.Fprintln(s.err, "Run pulsebench with --help behind the command to see how it is used.")
		return exitUsage
	}
	return exitFailure
}

func newRoot(call *session) *cobra.Command {
	root := &cobra.Command{
		Use:   "pulsebench",
		Short: "Load and latency of a PulseMQ broker, verified",
		Long: `Pulsebench puts load on a broker, measures it, and reads the log back: every record that
was acknowledged must be there once, in order, where it was acknowledged, with the bytes
that were sent.

By default it sends batches that were built beforehand over raw connections, so that it
costs little beside a broker on the same machine. With --sdk it goes through the Go client
record by record, as an application does.

Exit codes: 0 all went well, 1 something failed or did not verify, 2 the call was wrong.`,
		Example: `  pulsebench produce --records 1000000 --record-size 256 --partitions 16
  pulsebench produce --rate 100000 --duration 1m --json result.json --hdr result.hgrm
  pulsebench e2e --rate 50000 --batch-records 1
  pulsebench consume --topic pulsebench
  pulsebench sweep --partitions 128 --svg sweep.svg
  pulsebench compare --partitions 128 --durability sync`,
		Version:       core.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("name a command: produce, consume, e2e, sweep, ceiling, compare or table")
		},
		PersistentPreRun: func(*cobra.Command, []string) { call.started = true },
	}
	root.AddCommand(newProduce(call), newConsume(call), newEndToEnd(call), newSweep(call), newCeiling(call), newCompare(call), newTable(call), newEcho(call))
	return root
}
