package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

const (
	runsDefault = 5
	runsMax     = 100

	// benchDurationDefault is that of one run of one side; warmupDefault that of the run before the first, which is not
	// counted: memory and files are touched for the first time then.
	benchDurationDefault = 6 * time.Second
	warmupDefault        = 2 * time.Second
)

// bench is what commands have in common that measure several runs of several sides.
type bench struct {
	*session
	folder   string // for data of brokers that are started, and for files of the ceiling
	program  string
	brokers  string
	admin    string
	runs     int
	duration time.Duration
	warmup   time.Duration
	settings []string // of brokers that are started, as key=value

	topics int            // that runs have been given so far
	seen   *report.Broker // what the last broker that was measured says of itself; nil before
}

// addFlags declares the flags of commands that measure a broker.
func (b *bench) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.program, "program", "", "the broker's `program`, as bin/pulsemq: it is started on free ports with new data in --dir (default: pulsemq beside pulsebench)")
	flags.StringVar(&b.brokers, "brokers", "", "measure a broker that runs already, at `HOST:PORT,...`; what needs one of its own is left out")
	flags.StringVar(&b.admin, "admin", "", "its metrics port, `HOST:PORT`: processor time is read there")
	flags.StringArrayVar(&b.settings, "set", nil, "a setting of the broker that is started, as `key=value`; may be repeated, and is named in the result")
	b.addRuns(cmd)
	flags.DurationVar(&b.warmup, "warmup", warmupDefault, "`time` of a run of each side that comes first and does not count")
}

// addRuns declares the flags of everything that takes a median.
func (b *bench) addRuns(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.folder, "dir", ".", "`folder` on the disk that is measured; what is written there is removed at the end")
	flags.IntVar(&b.runs, "runs", runsDefault, "runs of each side; the median counts")
	flags.DurationVar(&b.duration, "duration", benchDurationDefault, "`time` of each run")
}

// validate reports every fault at once.
func (b *bench) validate() error {
	var faults []error
	if b.runs < 1 || b.runs > runsMax {
		faults = append(faults, fmt.Errorf("--runs %d: 1 to %d is allowed", b.runs, runsMax))
	}
	if b.duration <= 0 {
		faults = append(faults, fmt.Errorf("--duration %v: it is more than 0", b.duration))
	}
	if b.warmup < 0 {
		faults = append(faults, fmt.Errorf("--warmup %v: it is 0 or more", b.warmup))
	}
	if info, err := os.Stat(b.folder); err != nil || !info.IsDir() {
		faults = append(faults, fmt.Errorf("--dir %s: it is no folder", b.folder))
	}
	if b.program != "" && b.brokers != "" {
		faults = append(faults, errors.New("--program starts a broker, --brokers names one that runs: give one of them"))
	}
	if len(b.settings) > 0 && b.brokers != "" {
		faults = append(faults, errors.New("--set is for a broker that is started here, --brokers names one that runs: give one of them"))
	}
	if b.admin != "" && b.brokers == "" {
		faults = append(faults, errors.New("--admin belongs to --brokers"))
	}
	if len(faults) > 0 {
		return usageError{errors.Join(faults...)}
	}
	return nil
}

// findProgram takes the broker that lies beside this program when none was named.
func (b *bench) findProgram() error {
	if b.brokers != "" || b.program != "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.program = filepath.Join(filepath.Dir(self), "pulsemq")
	if _, err := os.Stat(b.program); err != nil {
		return usagef("there is no broker at %s: name its program with --program, or one that runs with --brokers", b.program)
	}
	return nil
}

// broker is the broker that is measured: a new one, or the one that runs.
func (b *bench) broker() (*host.Server, error) {
	if b.brokers != "" {
		return &host.Server{Address: b.brokers, Admin: b.admin}, nil
	}
	return host.StartBroker(b.program, b.folder, b.brokerArguments()...)
}

// brokerArguments are those of a broker that is started, beside its addresses and its data folder.
func (b *bench) brokerArguments() []string {
	var arguments []string
	for _, setting := range b.settings {
		arguments = append(arguments, "--set", setting)
	}
	return arguments
}

// say tells on standard error how far the work is.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.err, format+"\n", args...) }

// newTopic is a name that no other run has.
func (b *bench) newTopic() string {
	b.topics++
	return fmt.Sprintf("pulsebench-%d-%d", os.Getpid(), b.topics)
}

// side is one run against one server.
type side struct {
	server *host.Server
	args   []string // of pulsebench, but for --brokers
	blind  bool     // an echo: nothing can be read back
	keep   bool     // leave the topic
	stall  bool     // nothing may go through: that is a finding, as in a sweep, or does not matter, as in a warm-up
}

// workload reads the arguments as the command that they begin with would.
func (b *bench) workload(args []string) (*workload, error) {
	w := &workload{producers: 1, consumers: 1}
	cmd := &cobra.Command{Use: args[0], SilenceUsage: true, SilenceErrors: true}
	w.addShared(cmd)
	switch args[0] {
	case "produce":
		w.addSending(cmd)
	case "consume":
		w.addReading(cmd)
	case "e2e":
		w.addSending(cmd)
		w.addReading(cmd)
	default:
		return nil, fmt.Errorf("%q is no command of a side", args[0])
	}
	if err := cmd.ParseFlags(args[1:]); err != nil {
		return nil, usageError{err}
	}
	return w, w.validate(cmd)
}

// measure does one run. One that does not verify, or moves nothing, is an error: its figures mean nothing.
func (b *bench) measure(ctx context.Context, s side) (*report.Result, error) {
	args := append(slices.Clone(s.args), "--brokers", s.server.Address)
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--topic") }) {
		args = append(args, "--topic", b.newTopic())
	}
	w, err := b.workload(args)
	if err != nil {
		return nil, err
	}
	w.blind, w.serverTime, w.admin = s.blind, s.server.ProcessorTime, s.server.Admin
	debug.FreeOSMemory() // what the last run has left is no burden of this one
	if s.server.Data != "" {
		if err := host.Quiet(ctx, s.server.Data); err != nil { // nor what was deleted behind it
			return nil, err
		}
	}
	r, err := w.open(ctx, b.session)
	if err != nil {
		return nil, err
	}
	measure := map[string]func(context.Context) (*report.Result, *hdrhistogram.Histogram, error){"produce": r.produce, "consume": r.consume, "e2e": r.endToEnd}[args[0]]
	result, _, err := measure(ctx)
	if err == nil && !s.blind {
		b.seen = &result.Environment.Broker
	}
	if !s.blind && !s.keep && r.topic.Created {
		// Also after a failure, and when ctx has ended: the broker may be somebody else's.
		err = errors.Join(err, r.topic.Delete(context.WithoutCancel(ctx), w.brokers, core.Version))
	}
	if err == nil && !(s.stall && result.Records == 0) {
		err = judge(result)
	}
	if err != nil {
		return nil, fmt.Errorf("pulsebench %s: %w", strings.Join(s.args, " "), err)
	}
	return result, nil
}

// judge makes a run that proves nothing an error.
func judge(result *report.Result) error {
	switch {
	case !result.Verified.Clean():
		return fmt.Errorf("the log does not hold what was acknowledged: %v", result.Verified)
	case result.Records == 0:
		return fmt.Errorf("not one record went through; %d requests were refused", result.Errors)
	}
	return nil
}

// cores is how many processors a time is of a run's.
func cores(cpuSeconds float64, result *report.Result) float64 {
	return cpuSeconds / max(result.Seconds, 1e-9)
}

// lasting is the duration as an argument.
func lasting(d time.Duration) []string { return []string{"--duration", d.String()} }

// number is a number as an argument.
func number(n int64) string { return strconv.FormatInt(n, 10) }
