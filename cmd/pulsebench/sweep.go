package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/chart"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/knee"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

const (
	sweepFromDefault      = 10_000
	sweepPrecisionDefault = 0.05
	sweepStepsDefault     = 30
	sweepAchievedDefault  = 0.99
	sweepP99Default       = 20 * time.Millisecond

	// confirmsMax is how many rates are tried at full length after scouting, and confirmSteps how many times the
	// precision lies between them: each takes long.
	confirmsMax  = 6
	confirmSteps = 2

	// sweepRoomShare is how much of the disk's free room a step may fill.
	sweepRoomShare = 0.8
)

// sweeper looks for the knee.
type sweeper struct {
	from         float64
	precision    float64
	steps        int
	achieved     float64
	p99          time.Duration
	stepDuration time.Duration
	scout        time.Duration // of a step that looks for the neighbourhood of the knee; 0: every step is as long as the knee has to last
	jsonFile     string
	svgFile      string
}

func newSweep(s *session) *cobra.Command {
	w := new(workload)
	var sw sweeper
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Raise the rate until the knee, and draw throughput against latency",
		Long: `Produces at one rate after the other, each for --step-duration and timed from when every
batch was due. The rate doubles until a step is bad; then the distance between the last
good and the first bad rate is halved until they are --precision apart. A step is good when
--achieved of what was offered went through in the time and p99 stayed under --p99-max. The
knee is the highest good rate. With --scout-duration the way there is made of such shorter
steps, and the rate that they find is tried for --step-duration; when it is bad then, lower
ones are, each two times --precision below the one before.

Every step is read back and verified. A topic that a step has created is deleted behind it,
so that the disk has to hold one step; one that exists is filled and kept.`,
		Example: `  pulsebench sweep --partitions 128 --durability sync --record-size 1KB --batch-records 100 --svg sweep.svg
  pulsebench sweep --batch-records 1 --connections 64 --in-flight 32 --step-duration 10s --json sweep.json`,
		Args: cobra.NoArgs,
	}
	load := &cobra.Command{Use: "produce"}
	w.addShared(load)
	w.addSending(load)
	taken := map[string]bool{"duration": true, "records": true, "rate": true, "json": true, "hdr": true, "acks": true}
	load.Flags().VisitAll(func(f *pflag.Flag) {
		if !taken[f.Name] {
			cmd.Flags().AddFlag(f)
		}
	})
	flags := cmd.Flags()
	sw.addFlags(cmd)
	flags.StringVar(&sw.jsonFile, "json", "", "`file` for all steps as JSON; - is standard output, and the table goes to standard error")
	flags.StringVar(&sw.svgFile, "svg", "", "`file` for the picture")
	complete(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		args := []string{"produce"}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if load.Flags().Lookup(f.Name) == f && f.Name != "brokers" && f.Name != "admin" {
				args = append(args, "--"+f.Name+"="+f.Value.String())
			}
		})
		if err := sw.validate(); err != nil {
			return err
		}
		b := &bench{session: s}
		if _, err := b.workload(args); err != nil {
			return err
		}
		out, err := sw.run(cmd.Context(), b, &host.Server{Address: w.brokers, Admin: w.admin}, args, w.dataFolder)
		if err != nil {
			return err
		}
		return sw.write(s, out)
	}
	return cmd
}

// addFlags declares how the knee is looked for, and what a good step is.
func (sw *sweeper) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float64Var(&sw.from, "from", sweepFromDefault, "the first `rate`, in records per second")
	flags.Float64Var(&sw.precision, "precision", sweepPrecisionDefault, "how far a bad rate may be above the knee, as a share")
	flags.IntVar(&sw.steps, "steps", sweepStepsDefault, "rates that are tried at most")
	flags.Float64Var(&sw.achieved, "achieved", sweepAchievedDefault, "share of what was offered that a good step gets through")
	flags.DurationVar(&sw.p99, "p99-max", sweepP99Default, "what the p99 of a good step stays under")
	flags.DurationVar(&sw.stepDuration, "step-duration", stepDurationDefault, "`time` that the knee has to last")
	flags.DurationVar(&sw.scout, "scout-duration", sw.scout, "`time` of the steps that look for its neighbourhood; 0 makes all of them --step-duration")
}

func (sw *sweeper) validate() error {
	if sw.from <= 0 || sw.from > 1e12 || sw.precision <= 0 || sw.precision > 1 || sw.steps < 1 || sw.steps > 1000 {
		return usagef("--from %v is more than 0, --precision %v is more than 0 and up to 1, --steps %d is 1 to 1000", sw.from, sw.precision, sw.steps)
	}
	if sw.achieved <= 0 || sw.achieved > 1 || sw.p99 <= 0 || sw.stepDuration <= 0 {
		return usagef("--achieved %v is more than 0 and up to 1, --p99-max %v and --step-duration %v are more than 0", sw.achieved, sw.p99, sw.stepDuration)
	}
	if sw.scout < 0 || sw.scout > sw.stepDuration {
		return usagef("--scout-duration %v: 0 to the %v of --step-duration is allowed", sw.scout, sw.stepDuration)
	}
	return nil
}

// run tries rates until the knee is found.
func (sw *sweeper) run(ctx context.Context, b *bench, server *host.Server, args []string, folder string) (*report.Sweep, error) {
	out := &report.Sweep{AchievedMin: sw.achieved, P99Max: float64(sw.p99) / float64(time.Millisecond), StepSeconds: sw.stepDuration.Seconds(),
		Environment: report.NewEnvironment(core.Version, folder)}
	try := func(length time.Duration) func(rate float64) (bool, error) {
		return func(rate float64) (bool, error) {
			if why, err := sw.checkRoom(ctx, b, server, rate, length, args); err != nil {
				return false, err
			} else if why != "" {
				out.Omit(rate, length.Seconds(), why)
				b.say("sweep: %.0f records/s for %v is left out: %s", rate, length, why)
				return false, nil
			}
			result, err := b.measure(ctx, side{server: server, stall: true, args: with(args, fmt.Sprintf("--rate=%.0f", rate), "--duration="+length.String())})
			if err != nil {
				return false, fmt.Errorf("at %.0f records/s: %w", rate, err)
			}
			step := out.Judge(rate, length.Seconds(), result)
			out.Environment.Broker = result.Environment.Broker
			verdict := "good"
			if !step.Good {
				verdict = step.Why
			}
			b.say("sweep: %.0f records/s offered for %v, %.1f %% through: %s", rate, length, 100*step.Achieved, verdict)
			return step.Good, nil
		}
	}
	search := knee.Search{From: sw.from, Precision: sw.precision, StepsMax: sw.steps}
	if sw.scout == 0 {
		_, err := search.Find(try(sw.stepDuration))
		return out, err
	}
	found, err := search.Find(try(sw.scout))
	if err == nil && found > 0 {
		_, err = knee.Confirm(found, confirmSteps*sw.precision, confirmsMax, try(sw.stepDuration))
	}
	return out, err
}

// checkRoom says why a step cannot be: it would fill the disk of a broker that was started here, and measure a full disk.
func (sw *sweeper) checkRoom(ctx context.Context, b *bench, server *host.Server, rate float64, length time.Duration, args []string) (why string, err error) {
	if server.Data == "" {
		return "", nil
	}
	w, err := b.workload(args)
	if err != nil {
		return "", err
	}
	needed := rate * length.Seconds() * float64(w.recordBytes)
	if err := host.Quiet(ctx, server.Data); err != nil { // the last step's topic is deleted in the background
		return "", err
	}
	free, err := host.FreeBytes(server.Data)
	if err != nil {
		return "", err
	}
	if needed > float64(free)*sweepRoomShare {
		return fmt.Sprintf("it is %.1f GB, and the disk has %.1f GB free", needed/1e9, float64(free)/1e9), nil
	}
	return "", nil
}

// write prints the table, and writes the files that were asked for.
func (sw *sweeper) write(s *session, out *report.Sweep) error {
	table := s.out
	switch sw.jsonFile {
	case "":
	case "-":
		table = s.err
		if err := out.WriteJSON(s.out); err != nil {
			return err
		}
	default:
		if err := writeFile(sw.jsonFile, out.WriteJSON); err != nil {
			return err
		}
	}
	if sw.svgFile != "" {
		if err := writeFile(sw.svgFile, func(w io.Writer) error { return chart.WriteCurve(w, curveOf(out)) }); err != nil {
			return err
		}
	}
	if err := out.WriteTable(table); err != nil {
		return err
	}
	if out.Knee == 0 {
		return fmt.Errorf("none of %d rates is good: begin lower with --from, or allow more with --p99-max", len(out.Steps))
	}
	return nil
}

// curveOf draws the steps of a sweep by their rate.
func curveOf(s *report.Sweep) chart.Curve {
	curve := chart.Curve{Title: "Throughput against latency", Knee: s.Knee, Bound: s.P99Max}
	if at := slices.IndexFunc(s.Steps, func(step report.Step) bool { return step.Result.Latency != nil }); at >= 0 {
		load := &s.Steps[at].Result.Workload
		curve.Title = fmt.Sprintf("Throughput against latency: %d B x %.0f a batch, %d partitions, %s", load.RecordBytes, load.BatchRecords, load.Partitions, load.Durability)
	}
	for _, step := range s.Steps {
		if l := step.Result.Latency; l != nil {
			curve.Points = append(curve.Points, chart.Point{Rate: step.Offered * step.Achieved, Latency: [3]float64{l.P50, l.P99, l.P999}})
		}
	}
	slices.SortFunc(curve.Points, func(a, b chart.Point) int { return cmp.Compare(a.Rate, b.Rate) })
	return curve
}
