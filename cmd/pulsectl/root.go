package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/core"
)

// Exit codes. Scripts rely on them.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

// brokersEnv names the brokers when --brokers is not given.
const brokersEnv = "PULSECTL_BROKERS"

const brokersDefault = "127.0.0.1:9090"

// streams are the standard streams of a call.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// session is what every command of one call shares.
type session struct {
	streams
	brokers string
	output  string
	timeout time.Duration
	started bool // the arguments were right and a command runs
}

// execute runs one call and returns its exit code.
func execute(ctx context.Context, s streams, args []string) int {
	call := &session{streams: s}
	root := newRoot(call)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(s.err, "pulsectl: %s\n", call.tell(err))
	if usage := (usageError{}); errors.As(err, &usage) || !call.started {
		fmt.Fprintf(s.err, "%s --help shows how it is used.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailure
}

func newRoot(call *session) *cobra.Command {
	root := &cobra.Command{
		Use:   "pulsectl",
		Short: "Command line of the PulseMQ message broker",
		Long: `Pulsectl manages topics, sends and reads messages, and reads data folders offline.

It speaks to the brokers named by --brokers, or by the environment variable
` + brokersEnv + `, or to ` + brokersDefault + `.

Exit codes: 0 all went well, 1 something failed, 2 the call was wrong.`,
		Example: `  pulsectl topic create orders --partitions 4
  echo hello | pulsectl produce orders
  pulsectl consume orders
  pulsectl topic offsets orders --at -1h -o json`,
		Version:       core.Version,
		Args:          noArgument,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if call.output != outputTable && call.output != outputJSON {
				return usagef("--output %q: allowed are %s and %s", call.output, outputTable, outputJSON)
			}
			if call.timeout <= 0 {
				return usagef("--timeout %v: it is more than 0", call.timeout)
			}
			return nil
		},
	}
	brokers := os.Getenv(brokersEnv)
	if brokers == "" {
		brokers = brokersDefault
	}
	flags := root.PersistentFlags()
	flags.StringVar(&call.brokers, "brokers", brokers, "brokers to ask first: HOST:PORT,HOST:PORT or mq://HOST:PORT,...")
	flags.StringVarP(&call.output, "output", "o", outputTable, "how results are printed: table, or json for JSON lines")
	flags.DurationVar(&call.timeout, "timeout", 15*time.Second, "how long one request may take")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(newTopic(call), newProduce(call), newConsume(call), newGroup(call), newQueue(call), newDLQ(call), newScrub(call), newDebug(call))
	root.SetFlagErrorFunc(flagFault)
	call.watch(root)
	return root
}

// watch notes when a command begins: what cobra refuses before, such as a missing
// flag, is a wrong call.
func (s *session) watch(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			s.started = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		s.watch(sub)
	}
}

// connect opens a client, within the timeout.
func (s *session) connect(ctx context.Context) (*pulsemq.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return pulsemq.Connect(ctx, s.brokers, pulsemq.ClientName("pulsectl"), pulsemq.ClientVersion(core.Version),
		pulsemq.ClientRequestTimeout(s.timeout))
}

// admin runs one administrative request, within the timeout.
func (s *session) admin(ctx context.Context, do func(context.Context, *pulsemq.Admin) error) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return do(ctx, client.Admin())
}

// topicNames completes the name of a topic.
func (s *session) topicNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	err := s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
		for topic, err := range a.Topics(ctx) {
			if err != nil {
				return err
			}
			names = append(names, topic.Name)
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
