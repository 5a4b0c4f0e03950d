package main

import (
	"fmt"
	"runtime"

	"github.com/pulsemq/pulsemq/core"
	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

func versionText() string {
	return fmt.Sprintf("pulsemq %s %s %s/%s", core.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
