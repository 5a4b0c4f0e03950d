package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// usageError is a call that cannot be right whatever the broker says.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// tell is an error in the words of the command line. The client library names
// itself and the calls of a program, which mean nothing here.
func (s *session) tell(err error) string {
	var p *pulsemq.PartitionError
	if errors.As(err, &p) {
		err = fmt.Errorf("topic %q partition %d: %w", p.Topic, p.Partition, p.Err)
		if p.Stopped && errors.Is(err, pulsemq.ErrCorruptRecord) {
			err = fmt.Errorf("%w; --from %d or --skip-damaged goes on behind them", err, p.Next)
		}
	}
	text := strings.ReplaceAll(err.Error(), "pulsemq: ", "")
	if errors.Is(err, context.DeadlineExceeded) {
		late := context.DeadlineExceeded.Error()
		text = strings.TrimSuffix(strings.TrimPrefix(text, late+": "), ": "+late)
		return fmt.Sprintf("gave up after %v (--timeout): %s", s.timeout, text)
	}
	return text
}

// flagFault says what a flag wants in place of what the number parser says of it.
func flagFault(_ *cobra.Command, err error) error {
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return usageError{err}
	}
	wants := "a whole number"
	if number.Func == "ParseUint" {
		wants += ", 0 or more"
	}
	if errors.Is(number, strconv.ErrRange) {
		wants = "a smaller number"
	}
	return usagef("%s: wants %s", strings.TrimSuffix(err.Error(), ": "+number.Error()), wants)
}

// oneArgument wants exactly the argument that is called name in the usage.
func oneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("%s wants %s", cmd.CommandPath(), name)
		case len(args) > 1:
			return usagef("%s wants one %s, %d are given: %q", cmd.CommandPath(), name, len(args), args)
		}
		return nil
	}
}

// noArgument wants a command behind this one, or nothing.
func noArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return usagef("%s wants no arguments: %q", cmd.CommandPath(), args)
	}
	cmd.SuggestionsMinimumDistance = 2 // letters that may differ
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("%s", text)
}
