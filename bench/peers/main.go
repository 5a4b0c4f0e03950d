package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pulsemq/pulsemq/bench/peers/nats"
)

const runsMax = 100

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 4 && os.Args[1] == "serve-nats" {
		exit(nats.Serve(ctx, os.Stderr, os.Args[2], os.Args[3]))
	}
	exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(err error) {
	switch {
	case err == nil:
		os.Exit(0)
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	}
	fmt.Fprintf(os.Stderr, "peers: %v\n", err)
	os.Exit(1)
}

// run is one call.
func run(ctx context.Context, args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(log)
	s := Settings{Say: func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }}
	flags.StringVar(&s.Programs, "programs", "bin", "`folder` of pulsemq and pulsebench")
	flags.StringVar(&s.Folder, "dir", ".", "`folder` on the disk that is measured; what is written there is removed")
	flags.IntVar(&s.Runs, "runs", 5, "runs of each broker; the median counts")
	flags.DurationVar(&s.Duration, "duration", 6*time.Second, "`time` of each run")
	flags.DurationVar(&s.Rest, "rest", 3*time.Second, "`time` before each turn in which the drive forgets what the one before has left")
	flags.DurationVar(&s.Warmup, "warmup", 2*time.Second, "`time` of a run before each that does not count")
	streams := flags.String("streams", "1,8,128", "`numbers` of JetStream's streams to try; the best of them counts")
	names := flags.String("contests", "singles,batches", "`names` of contests")
	folder := flags.String("out", "", "`folder` for peers.md and peers.json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := s.choose(*streams, *names)
	if err != nil {
		return err
	}
	result := newResult(s, again(flags))
	for _, contest := range chosen {
		standings, err := contest.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", contest.Name, err)
		}
		result.Contests = append(result.Contests, Table{Name: contest.Name, Workload: contest.Workload, Standings: standings})
		if *folder != "" { // after each, so that what was measured is there when a later one fails
			if err := result.save(*folder); err != nil {
				return err
			}
		}
	}
	return result.WriteTable(out)
}

// again is the command that measures the same again, without the folders of this machine: make bench-peers, unless
// something was asked for that it has no variable for.
func again(flags *flag.FlagSet) string {
	makes, own, plain := "make bench-peers", "bin/peers", true
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "programs", "dir", "out":
			return
		case "runs":
			makes += " RUNS=" + f.Value.String()
		default:
			plain = false
		}
		own += " -" + f.Name + "=" + f.Value.String()
	})
	if plain {
		return makes
	}
	return own
}

// choose validates what was asked for, every fault at once.
func (s *Settings) choose(streams, names string) (chosen []Contest, err error) {
	var faults []error
	if s.Runs < 1 || s.Runs > runsMax {
		faults = append(faults, fmt.Errorf("-runs %d: 1 to %d is allowed", s.Runs, runsMax))
	}
	if s.Duration <= 0 || s.Warmup < 0 || s.Rest < 0 {
		faults = append(faults, fmt.Errorf("-duration %v is more than 0, -warmup %v and -rest %v are 0 or more", s.Duration, s.Warmup, s.Rest))
	}
	for text := range strings.SplitSeq(streams, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 1000 {
			faults = append(faults, fmt.Errorf("-streams %s: numbers of 1 to 1000, separated by commas", streams))
			break
		}
		s.Streams = append(s.Streams, n)
	}
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, c := range contests() {
			if c.Name == strings.TrimSpace(name) {
				chosen, found = append(chosen, c), true
			}
		}
		if !found {
			faults = append(faults, fmt.Errorf("-contests %s: there are singles and batches", name))
		}
	}
	for _, program := range []string{"pulsemq", "pulsebench"} {
		if _, err := os.Stat(filepath.Join(s.Programs, program)); err != nil {
			faults = append(faults, fmt.Errorf("-programs %s: %w; make build builds them", s.Programs, err))
		}
	}
	return chosen, errors.Join(faults...)
}

// save writes the page and its data.
func (r *Result) save(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{"peers.md": r.WriteMarkdown, "peers.json": r.WriteJSON} {
		file, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(file), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// versions names the peers that are linked in, and PulseMQ as it was built.
func versions() string {
	parts := []string{"PulseMQ of this repository"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go", "github.com/synadia-io/orbit.go/jetstreamext":
				parts = append(parts, m.Path+" "+m.Version)
			}
		}
	}
	return strings.Join(parts, ", ")
}
