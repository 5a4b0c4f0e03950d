package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pulsemq/pulsemq/tools/overlay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	list := flags.Bool("list", false, "print the rules and the tests that hold them, and run nothing")
	pattern := flags.String("run", "", "only the mutants whose name matches this regular expression")
	jobs := flags.Int("jobs", runtime.NumCPU(), "how many mutants are built and tested at a time")
	limit := flags.Duration("timeout", 2*time.Minute, "how long one test may take")
	verbose := flags.Bool("v", false, "print how each test failed")
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if *jobs < 1 {
		return fmt.Errorf("-jobs is %d, it must be at least 1", *jobs)
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range all() {
		if match.MatchString(m.Name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant matches %q; -list prints them", *pattern)
	}
	if *list {
		printRules(out, chosen)
		return nil
	}
	root, err := overlay.Root(ctx)
	if err != nil {
		return err
	}
	return (&runner{root: root, limit: *limit, jobs: *jobs, out: out, verbose: *verbose}).run(ctx, chosen)
}

// printRules prints the table as it is read: the rule, where it stands, who holds it.
func printRules(out io.Writer, mutants []mutant) {
	for _, m := range mutants {
		fmt.Fprintf(out, "%s\n    %s\n    %s held by %s\n", m.Name, m.Rule, m.File, strings.Join(m.Tests, ", "))
	}
	fmt.Fprintf(out, "%d mutants\n", len(mutants))
}
