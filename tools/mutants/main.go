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
	"regexp"
	"runtime"
	"strings"
	"sync"
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

// runner runs mutants, several at a time.
type runner struct {
	root    string
	limit   time.Duration
	jobs    int
	verbose bool

	mu  sync.Mutex // of what follows
	out io.Writer
	bad []string
}

func (r *runner) run(ctx context.Context, mutants []mutant) error {
	if err := r.baseline(ctx, mutants); err != nil {
		return err
	}
	began := time.Now()
	r.each(len(mutants), func(i int) { r.mutant(ctx, &mutants[i]) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(r.bad) > 0 {
		return fmt.Errorf("%d of %d mutants are not as the table says: %s", len(r.bad), len(mutants), strings.Join(r.bad, ", "))
	}
	fmt.Fprintf(r.out, "%d mutants, each killed by every test that is said to hold its rule (%s)\n", len(mutants), time.Since(began).Round(time.Second))
	return nil
}

// each does the work for 0 to n-1, as many at a time as there are jobs.
func (r *runner) each(n int, work func(i int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range min(r.jobs, n) {
		group.Go(func() {
			for i := range next {
				work(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

// baseline requires that every test passes while all rules are in.
func (r *runner) baseline(ctx context.Context, mutants []mutant) error {
	folder, err := os.MkdirTemp("", "pulsemq-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	known := map[test]bool{}
	byFolder := map[string][]test{}
	var folders []string
	for i := range mutants {
		for _, name := range mutants[i].Tests {
			t, err := parseTest(name)
			if err != nil {
				return fmt.Errorf("mutant %s: %w", mutants[i].Name, err)
			}
			if known[t] {
				continue
			}
			known[t] = true
			if byFolder[t.folder] == nil {
				folders = append(folders, t.folder)
			}
			byFolder[t.folder] = append(byFolder[t.folder], t)
		}
	}
	var bad []error
	r.each(len(folders), func(i int) {
		program := filepath.Join(folder, fmt.Sprintf("%d.test", i))
		err := buildTests(ctx, r.root, folders[i], "", program)
		for _, t := range byFolder[folders[i]] {
			result, said := notRun, ""
			if err == nil {
				result, said, err = runTest(ctx, r.root, program, t, r.limit)
			}
			if err == nil && result != passed {
				err = fmt.Errorf("%s without any mutant:\n%s", result, said)
			}
			if err != nil {
				r.mu.Lock()
				bad = append(bad, fmt.Errorf("%s: %w", t, err))
				r.mu.Unlock()
				err = nil
			}
		}
	})
	if err := errors.Join(bad...); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%d tests pass while every rule is in\n", len(known))
	return ctx.Err()
}

// mutant runs one and says how it went.
func (r *runner) mutant(ctx context.Context, m *mutant) {
	if ctx.Err() != nil {
		return
	}
	began := time.Now()
	verdict, err := r.kill(ctx, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	word := "killed  "
	if err != nil {
		word = "SURVIVED"
		verdict = err.Error()
		r.bad = append(r.bad, m.Name)
	}
	fmt.Fprintf(r.out, "%s %-32s %5.1fs  %s\n", word, m.Name, time.Since(began).Seconds(), verdict)
}

// kill runs a mutant's tests and requires each of them to fail.
func (r *runner) kill(ctx context.Context, m *mutant) (string, error) {
	folder, err := os.MkdirTemp("", "pulsemq-mutant-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	laid, err := overlay.Write(r.root, folder, m.edits())
	if err != nil {
		return "", err
	}
	limit := r.limit
	if m.Hangs {
		limit = min(limit, hangLimit)
	}
	var verdicts []string
	program, built := filepath.Join(folder, "mutant.test"), ""
	for _, name := range m.Tests {
		t, err := parseTest(name)
		if err != nil {
			return "", err
		}
		if t.folder != built {
			if err := buildTests(ctx, r.root, t.folder, laid, program); err != nil {
				return "", err
			}
			built = t.folder
		}
		result, said, err := runTest(ctx, r.root, program, t, limit)
		switch {
		case err != nil:
			return "", err
		case result == failed || result == panicked || result == hung && m.Hangs:
		case result == hung:
			return "", fmt.Errorf("%s did not end; a test must notice by itself, or the mutant must say that it hangs", t)
		default:
			return "", fmt.Errorf("%s %s although the rule was taken out: %s", t, result, m.Rule)
		}
		verdicts = append(verdicts, fmt.Sprintf("%s %s", t, result))
		if r.verbose {
			verdicts = append(verdicts, "\n"+reason(said))
		}
	}
	return strings.Join(verdicts, ", "), nil
}

// hangLimit is how long a test that is expected to hang is waited for.
const hangLimit = 20 * time.Second

// reason is the part of a test's output that says what failed.
func reason(said string) string {
	var kept []string
	for line := range strings.Lines(said) {
		if s := strings.TrimSpace(line); strings.Contains(s, "_test.go:") || strings.HasPrefix(s, "panic: ") {
			if kept = append(kept, "    "+s); len(kept) == 3 {
				break
			}
		}
	}
	return strings.Join(kept, "\n")
}
