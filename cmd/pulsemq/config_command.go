package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/pulsemq/pulsemq/cmd/pulsemq/internal/config"
	"github.com/pulsemq/pulsemq/core"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

func newConfigCheck(sources *config.Sources) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say whether the broker would start with this configuration",
		Long: `Reads the same sources as the broker does and reports every fault at once, one
per line on standard error, with where it was written. Exits with 2 when there is one.`,
		Example: "  pulsemq config check --config /etc/pulsemq.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := loadOrTell(cmd.ErrOrStderr(), *sources); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return nil
		},
	}
}

func newConfigPrint(sources *config.Sources) *cobra.Command {
	return &cobra.Command{
		Use:   "print",
		Short: "Show every key with its effective value and where it comes from",
		Long: `Prints YAML that --config reads back: every key with the value in effect on this
machine, and as a comment where it was set.`,
		Example: "  pulsemq config print --set network.port=9191",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := loadOrTell(cmd.ErrOrStderr(), *sources)
			if err != nil {
				return err
			}
			return printConfig(cmd.OutOrStdout(), loaded.List())
		},
	}
}

// loadOrTell is load for people: faults are plain lines.
func loadOrTell(stderr io.Writer, sources config.Sources) (*config.Loaded, error) {
	loaded, code, err := load(sources)
	var faults core.Faults
	switch {
	case errors.As(err, &faults):
		for _, fault := range faults {
			fmt.Fprintln(stderr, fault.Error())
		}
		return nil, failure{code: code}
	case err != nil:
		return nil, failure{code, err}
	}
	return loaded, nil
}

// printConfig writes one aligned line per key.
func printConfig(w io.Writer, values []core.ConfigValue) error {
	lines, width := make([]string, len(values)), 0
	for i, v := range values {
		// A path may need quotes to be read back; numbers and words never get any.
		node := yaml.Node{Kind: yaml.ScalarNode, Value: v.Value}
		if node.ShortTag() == "!!null" {
			node.Style = yaml.SingleQuotedStyle // a folder may be named ~ or null
		}
		text, err := yaml.Marshal(&node)
		if err != nil {
			return failure{exitFailure, fmt.Errorf("print %s: %w", v.Name, err)}
		}
		lines[i] = v.Name + ": " + string(text[:len(text)-1])
		width = max(width, len(lines[i]))
	}
	for i, v := range values {
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, lines[i], v.Source); err != nil {
			return failure{exitFailure, err}
		}
	}
	return nil
}
