package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/pulsemq/pulsemq/cmd/pulsemq/internal/config"
	"github.com/pulsemq/pulsemq/core"
	"github.com/spf13/cobra"
)

// The exit codes, as scripts rely on them.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// runner serves until ctx is done and then stops cleanly.
type runner func(ctx context.Context, cfg core.Config, log *slog.Logger) error

// failure ends the program with a code. Whoever makes it has told the user already,
// or leaves that to execute by setting err.
type failure struct {
	code int
	err  error
}

func (f failure) Error() string {
	if f.err == nil {
		return "failed"
	}
	return f.err.Error()
}

// execute runs the command line and returns the exit code.
func execute(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	// What no command of ours returned is cobra's word on flags and arguments.
	f := failure{exitUsage, err}
	if errors.As(err, &f) && f.err == nil {
		return f.code
	}
	fmt.Fprintf(root.ErrOrStderr(), "pulsemq: %v\n", f.err)
	if f.code == exitUsage {
		fmt.Fprintln(root.ErrOrStderr(), "pulsemq --help shows what is allowed")
	}
	return f.code
}

// newCommand builds the command line around the broker.
func newCommand(run runner) *cobra.Command {
	sources := config.Sources{Environ: os.Environ()}
	root := &cobra.Command{
		Use:   "pulsemq",
		Short: "A durable message broker",
		Long: `pulsemq serves partitioned topics over TCP. An acknowledged message is on disk.

Settings come from a YAML file, the environment (PULSEMQ_NETWORK_PORT=9090),
--set and the short flags; each wins over those before it. docs/CONFIG.md
describes every key, and pulsemq config print shows what is in effect.

It logs JSON lines to standard error; one says "ready" once it serves. SIGTERM
stops it cleanly. It exits with 0 after that, 1 on failure, 2 on wrong usage or
configuration.`,
		Example: `  pulsemq
  pulsemq --data-dir /var/lib/pulsemq --listen 0.0.0.0:9090
  pulsemq --config /etc/pulsemq.yaml --set durability.mode=batch`,
		Version:       versionText(),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	flags := root.PersistentFlags()
	texts := []struct {
		name, usage string
		target      **string
	}{
		{"config", "YAML `file` with settings", &sources.File},
		{"data-dir", "`folder` of everything that the broker keeps", &sources.DataDir},
		{"listen", "`host:port` for clients", &sources.Listen},
		{"admin", "`host:port` for metrics and health over HTTP", &sources.Admin},
	}
	for _, text := range texts {
		flags.String(text.name, "", text.usage)
	}
	// StringArray, not StringSlice: a value may hold commas.
	flags.StringArrayVar(&sources.Sets, "set", nil, "one setting as `key=value`; may be repeated")
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		for _, text := range texts {
			if flag := cmd.Flags().Lookup(text.name); flag.Changed {
				value := flag.Value.String()
				*text.target = &value
			}
		}
	}

	if run != nil {
		root.RunE = func(cmd *cobra.Command, _ []string) error { return serve(cmd, sources, run) }
	}
	configCommand := &cobra.Command{
		Use:   "config",
		Short: "Check or print the configuration",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return failure{exitUsage, errors.New("config wants a command: check or print")}
		},
	}
	configCommand.AddCommand(newConfigCheck(&sources), newConfigPrint(&sources))
	root.AddCommand(configCommand, newVersion())
	return root
}

// serve loads the configuration and runs the broker until it is told to stop.
func serve(cmd *cobra.Command, sources config.Sources, run runner) error {
	// The level is not known before the configuration is, and its faults are errors.
	log := newLogger(cmd.ErrOrStderr(), slog.LevelInfo)
	loaded, code, err := load(sources)
	if err != nil {
		var faults core.Faults
		if !errors.As(err, &faults) {
			log.Error("cannot start", "error", err.Error())
		}
		for _, f := range faults {
			log.Error("configuration is wrong", "key", f.Key, "value", f.Value, "source", f.Source, "problem", f.Problem)
		}
		return failure{code: code}
	}
	log = newLogger(cmd.ErrOrStderr(), loaded.Config.Log.Level)

	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// A second signal ends the process at once: whoever sends it has waited enough.
	context.AfterFunc(ctx, stop)

	if err := run(ctx, loaded.Config, log); err != nil {
		log.Error("failed", "error", err.Error())
		return failure{code: exitFailure}
	}
	return nil
}

// load reads the configuration for this machine. On an error it says the exit code too.
func load(sources config.Sources) (*config.Loaded, int, error) {
	machine, err := config.Machine()
	if err != nil {
		return nil, exitFailure, err
	}
	loaded, faults := config.Load(sources, machine)
	if faults != nil {
		return nil, exitUsage, faults
	}
	return loaded, exitOK, nil
}
