package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/chart"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

const (
	fetchSizeDefault      = "4GiB"
	tailSizeDefault       = "48MiB" // few enough to stay in any broker's cache
	restartSizeDefault    = "20GiB"
	restartPartitions     = 2000
	restartJournal        = 2_000_000 // more small records than the journal of a shard holds by default
	idlePartitionsDefault = 10_000
	groupMembersDefault   = 200
	groupPartsDefault     = 1_000
	groupLivesDefault     = 100_000
	stepDurationDefault   = 60 * time.Second
	settleDefault         = 5 * time.Second

	// The knee is looked for with shorter steps, from a rate that every machine of today bears.
	scoutDefault     = 6 * time.Second
	tableFromDefault = 50_000
)

// table measures the rows of the speed table.
type table struct {
	bench
	rows              []string
	out               string // folder
	fetchSize         string
	tailSize          string
	restartSize       string
	fileSize          string
	idlePartitions    int
	restartPartitions int
	restartJournal    int64
	groupMembers      int // of group-change
	groupPartitions   int
	groupLives        int
	sweeper           sweeper // of open-loop
	settle            time.Duration

	fetchBytes, tailBytes, restartBytes, fileBytes int64
	pictures                                       []report.Picture // written so far
	again                                          string           // the command that measures the table again
}

func newTable(s *session) *cobra.Command {
	return newTableOf(&table{bench: bench{session: s}, sweeper: sweeper{scout: scoutDefault}})
}

func newTableOf(t *table) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Measure every row of the speed table, and write it as a page",
		Long: `Measures a fixed set of workloads, each against its floor and, where there is one, against
the ceiling of this machine in the same run. Each row has a broker of its own with new data
in --dir, medians of --runs, and every record verified.

With --out it writes table.md, table.json and what belongs to them: shares.svg,
open-loop.svg and open-loop.json. Nothing in them names this machine's folders or addresses.
They are written anew after each row, so that what was measured is there when a later one
fails. The flags of sweep say how open-loop looks for the knee. A row that fails is named,
and the exit code is 1; a floor that is missed is not an error.

Rows: ` + strings.Join(rowNames(), ", ") + `.`,
		Example: `  pulsebench table --out results
  pulsebench table --rows batch-sync,single-sync --runs 3 --duration 4s
  pulsebench table --rows restart --restart-size 2GiB --runs 1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := t.validate()
			if err != nil {
				return err
			}
			t.again = t.command(cmd)
			return t.run(cmd.Context(), rows)
		},
	}
	t.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&t.rows, "rows", nil, "`names` of rows, separated by commas (default: all)")
	flags.StringVar(&t.out, "out", "", "`folder` for the page, its JSON and its pictures; created when it is missing")
	flags.StringVar(&t.fetchSize, "fetch-size", fetchSizeDefault, "`size` of the log that fetch-cold, fetch-sdk, group and objects read, and queue a sixteenth of")
	flags.StringVar(&t.tailSize, "tail-size", tailSizeDefault, "`size` of what fetch-tail reads again and again; it has to fit into the broker's tail cache")
	flags.StringVar(&t.restartSize, "restart-size", restartSizeDefault, "`size` of the data that restart starts with")
	flags.IntVar(&t.restartPartitions, "restart-partitions", restartPartitions, "partitions that restart starts with")
	flags.Int64Var(&t.restartJournal, "restart-journal", restartJournal, "single records that restart sends right before the kill, to fill the journal with")
	flags.IntVar(&t.idlePartitions, "idle-partitions", idlePartitionsDefault, "partitions of idle-partitions")
	flags.IntVar(&t.groupMembers, "group-members", groupMembersDefault, "members of group-change")
	flags.IntVar(&t.groupPartitions, "group-partitions", groupPartsDefault, "partitions that they read")
	flags.IntVar(&t.groupLives, "group-lives", groupLivesDefault, "groups of group-lives")
	flags.StringVar(&t.fileSize, "file-size", fileSizeDefault, "`size` of the file that the disk's ceiling is measured on")
	t.sweeper.addFlags(cmd)
	from := flags.Lookup("from") // a later flag of that name would be a fault
	t.sweeper.from, from.DefValue = tableFromDefault, fmt.Sprint(tableFromDefault)
	flags.DurationVar(&t.settle, "settle", settleDefault, "`time` that idle rows look at a broker")
	_ = cmd.RegisterFlagCompletionFunc("rows", cobra.FixedCompletions(rowNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (t *table) validate() ([]tableRow, error) {
	var faults []error
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	fault(t.bench.validate())
	rows, err := chooseRows(t.rows)
	fault(err)
	for _, size := range []struct {
		flag, text string
		least      int64
		to         *int64
	}{
		{"fetch-size", t.fetchSize, 1 << 20, &t.fetchBytes},
		{"tail-size", t.tailSize, 1 << 20, &t.tailBytes},
		{"restart-size", t.restartSize, 1 << 20, &t.restartBytes},
		{"file-size", t.fileSize, fileBytesMin, &t.fileBytes},
	} {
		n, err := core.ParseSize(size.text)
		if err != nil || int64(n) < size.least {
			fault(usagef("--%s %s: it is a size of at least %v", size.flag, size.text, core.Size(size.least)))
		}
		*size.to = int64(n)
	}
	if t.idlePartitions < 1 || t.restartPartitions < 1 || t.restartJournal < 2 {
		fault(usagef("--idle-partitions %d and --restart-partitions %d are at least 1, --restart-journal %d at least 2", t.idlePartitions, t.restartPartitions, t.restartJournal))
	}
	if t.groupMembers < 2 || t.groupPartitions < 2 || t.groupLives < 1 {
		fault(usagef("--group-members %d and --group-partitions %d are at least 2, --group-lives %d at least 1", t.groupMembers, t.groupPartitions, t.groupLives))
	}
	fault(t.sweeper.validate())
	if t.settle <= 0 {
		fault(usagef("--settle %v: it is more than 0", t.settle))
	}
	if len(faults) > 0 {
		return nil, usageError{errors.Join(faults...)}
	}
	if err := t.findProgram(); err != nil {
		return nil, err
	}
	if t.out != "" {
		return rows, os.MkdirAll(t.out, 0o777)
	}
	return rows, nil
}

// run measures the rows one after the other.
func (t *table) run(ctx context.Context, rows []tableRow) error {
	page := report.NewComparison("The speed table", t.runs, t.duration, report.NewEnvironment(core.Version, t.folder).Public(t.again))
	page.BrokerArguments = t.brokerArguments()
	var failed []error
	for _, row := range rows {
		measured := report.Row{Name: row.name, Workload: row.workload}
		began := time.Now()
		stolen, stolenErr := host.Stolen()
		var err error
		if row.alone && t.brokers != "" {
			measured.Skipped = "it needs a broker that pulsebench starts itself"
		} else {
			err = row.measure(ctx, t, &measured)
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			measured.Skipped = filePath.ReplaceAllString(err.Error(), "PATH")
			failed = append(failed, fmt.Errorf("row %s: %w", row.name, err))
			t.say("%s: %v", row.name, err)
		}
		measured.Seconds = time.Since(began).Seconds()
		if after, err := host.Stolen(); err == nil && stolenErr == nil && len(measured.Figures) > 0 {
			cores := (after - stolen).Seconds() / measured.Seconds
			measured.Figures = append(measured.Figures, report.NewFigure(figureStolen, report.UnitCores, []float64{cores}, nil))
		}
		t.say("%s: took %.0f s", row.name, measured.Seconds)
		page.Rows = append(page.Rows, measured)
		if t.seen != nil {
			page.Environment.Broker = *t.seen
			page.Environment = page.Environment.Public(t.again)
		}
		if err := t.save(page); err != nil {
			return err
		}
	}
	if err := page.WriteTable(t.session.out); err != nil {
		return err
	}
	return errors.Join(failed...)
}

// filePath finds the names of files and folders in an error: a page names none of this machine's.
var filePath = regexp.MustCompile(`(\.{0,2}/[\w.@+-]+){2,}`)

// save writes what there is so far.
func (t *table) save(page *report.Comparison) error {
	if err := t.picture(report.Picture{Name: "shares.svg", Of: "The broker as a share of its ceiling"}, func(w io.Writer) error { return chart.WriteBars(w, shareBars(page)) }); err != nil {
		return err
	}
	if err := t.file("table.json", page.WriteJSON); err != nil {
		return err
	}
	return t.file("table.md", func(w io.Writer) error { return page.WriteMarkdown(w, t.pictures...) })
}

// picture writes a picture beside the page, which shows it from then on.
func (t *table) picture(p report.Picture, write func(io.Writer) error) error {
	if !slices.Contains(t.pictures, p) {
		t.pictures = append(t.pictures, p)
	}
	return t.file(p.Name, write)
}

// file writes a file beside the page, when there is one.
func (t *table) file(name string, write func(io.Writer) error) error {
	if t.out == "" {
		return nil
	}
	return writeFile(filepath.Join(t.out, name), write)
}

// command is what measures the table again, without the folders and addresses of this machine: make bench, unless
// something was asked for that it has no variable for.
func (t *table) command(cmd *cobra.Command) string {
	arguments, plain := []string{"bin/pulsebench", "table"}, true
	makes := []string{"make", "bench"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "dir", "out", "program", "brokers", "admin":
			return
		case "runs":
			makes = append(makes, "RUNS="+f.Value.String())
		case "rows":
			makes = append(makes, "ROWS="+strings.Join(t.rows, ","))
		default:
			plain = false
		}
		if f.Name == "rows" {
			arguments = append(arguments, "--rows="+strings.Join(t.rows, ","))
			return
		}
		if f.Name == "set" {
			arguments = append(arguments, t.brokerArguments()...)
			return
		}
		arguments = append(arguments, "--"+f.Name+"="+f.Value.String())
	})
	if plain {
		return report.CommandLine(makes)
	}
	return report.CommandLine(arguments)
}

// shareBars draws each row's broker as a share of its ceiling.
func shareBars(page *report.Comparison) chart.Bars {
	bars := chart.Bars{Title: "Broker as a share of the ceiling of the same run", Unit: "of the ceiling"}
	for i := range page.Rows {
		for _, f := range page.Rows[i].Figures {
			if f.Unit != report.UnitShare || len(f.Values) == 0 {
				continue
			}
			bar := chart.Bar{Name: page.Rows[i].Name, Value: f.Median, Low: f.Low, High: f.High}
			if f.Floor != nil && f.Floor.Least != nil {
				bar.Floor = *f.Floor.Least
			}
			bars.Bars = append(bars.Bars, bar)
		}
	}
	return bars
}
