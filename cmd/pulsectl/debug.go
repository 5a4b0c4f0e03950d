package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

func newDebug(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Read a data folder offline",
		Long: `Reads the files of a data folder on this machine, without a broker. Nothing is changed.
Payloads are never printed.`,
		Args: noArgument,
		RunE: func(*cobra.Command, []string) error { return usagef("debug: name a command, such as debug verify") },
	}
	cmd.AddCommand(newDebugDump(s), newDebugVerify(s))
	return cmd
}

func newDebugDump(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "dump-segment FILE",
		Short: "Print every frame of a file",
		Long: `Prints every frame of a segment (.log) with its offsets, index, term, generation and
batches, or what stands in an index (.index), a state (.state) or a journal file (.jnl),
and every damage. It may look at a file that a broker is writing; what is half written
then looks torn.

It exits with 1 when the file is damaged.`,
		Example: `  pulsectl debug dump-segment data/topics/*/0/00000000000000000000-0000000001.log
  pulsectl debug dump-segment data/layout-1/shard-00/journal-0001.jnl -o json`,
		Args: oneArgument("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := posix.OpenFolder(filepath.Dir(args[0]), posix.FolderOptions{})
			if err != nil {
				return err
			}
			defer folder.Close()
			report := segment.NewReport(s.out, s.output == outputJSON)
			err = segment.Dump(folder.FS(), filepath.Base(args[0]), report)
			if err := errors.Join(err, report.Flush()); err != nil {
				return err
			}
			if report.Damages > 0 {
				return fmt.Errorf("%s is damaged in %s", args[0], counted(report.Damages, "place"))
			}
			return nil
		},
	}
}

func newDebugVerify(s *session) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check a whole data folder",
		Long: `Reads every byte of a data folder and reports every damage: which file, where, what,
and which offsets are gone. Journals, segments, indexes and states are checked by
themselves and against each other. A torn end, as a crash leaves it, is reported and is
no damage.

It refuses a folder in which a broker runs, since what is half written would look
damaged; --force reads it all the same. It exits with 1 when there is damage.`,
		Example: `  pulsectl debug verify ./data
  pulsectl debug verify ./data -o json`,
		Args: oneArgument("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := posix.OpenFolder(args[0], posix.FolderOptions{Lock: !force})
			if errors.Is(err, posix.ErrLocked) {
				return fmt.Errorf("%w, or read it all the same with --force", err)
			}
			if err != nil {
				return err
			}
			defer folder.Close()
			report := segment.NewReport(s.out, s.output == outputJSON)
			summary, err := segment.Verify(folder.FS(), report)
			if err := errors.Join(err, report.Flush()); err != nil {
				return err
			}
			if !summary.Sound() {
				return fmt.Errorf("%s is damaged: see the report", args[0])
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also read a folder in which a broker runs")
	return cmd
}
