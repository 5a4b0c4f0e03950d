package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/tools/overlay"
)

// runner runs mutants, several at a time.
type runner struct {
	root    string
	limit   time.Duration
	jobs    int
	verbose bool

	folder   string             // for what is built
	programs map[string]program // by the folder of their tests

	mu     sync.Mutex // of what follows
	out    io.Writer
	sick   map[test]bool // tests that fail while every rule is in
	bad    []string      // mutants that are not as the table says
	killed int
}

// program is the tests of a package, over the source with every mutant that could be combined.
type program struct {
	file string
	err  error // it could not be built
}

func (r *runner) run(ctx context.Context, mutants []mutant) (err error) {
	began := time.Now()
	if r.folder, err = os.MkdirTemp("", "pulsemq-mutants-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.folder)
	alone, err := r.build(ctx, mutants)
	if err != nil {
		return err
	}
	if err := r.baseline(ctx, mutants); err != nil {
		return err
	}
	r.each(len(mutants), func(i int) { r.mutant(ctx, i+1, &mutants[i], alone[i]) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	took := time.Since(began).Round(time.Second)
	if len(r.bad) > 0 || len(r.sick) > 0 {
		err := fmt.Errorf("%d of %d mutants are not as the table says: %s", len(r.bad), len(mutants), strings.Join(r.bad, ", "))
		if len(r.sick) > 0 {
			err = fmt.Errorf("%w; %d tests fail while every rule is in", err, len(r.sick))
		}
		fmt.Fprintf(r.out, "%d of %d mutants killed (%s)\n", r.killed, len(mutants), took)
		return err
	}
	fmt.Fprintf(r.out, "%d mutants, each killed by every test that is said to hold its rule (%s)\n", len(mutants), took)
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

// build builds the tests of every package that is named, over the source with all
// mutants in it. It says which of them have to be built alone.
func (r *runner) build(ctx context.Context, mutants []mutant) (alone []bool, err error) {
	began := time.Now()
	c := &combined{root: r.root, files: map[string]*combinedFile{}}
	alone = make([]bool, len(mutants))
	together := 0
	for i := range mutants {
		ok, err := c.add(i+1, &mutants[i])
		if err != nil {
			return nil, err
		}
		if alone[i] = !ok; ok {
			together++
		}
	}
	laid, err := c.write(r.folder)
	if err != nil {
		return nil, err
	}
	tests, err := testsOf(mutants)
	if err != nil {
		return nil, err
	}
	r.programs = map[string]program{}
	var folders []string
	for _, t := range tests {
		if _, known := r.programs[t.folder]; !known {
			r.programs[t.folder] = program{file: filepath.Join(r.folder, fmt.Sprintf("%d.test", len(folders)))}
			folders = append(folders, t.folder)
		}
	}
	r.each(len(folders), func(i int) {
		err := buildTests(ctx, r.root, folders[i], laid, r.programs[folders[i]].file)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.programs[folders[i]] = program{file: r.programs[folders[i]].file, err: err}
	})
	for _, folder := range folders {
		if err := r.programs[folder].err; err != nil {
			return nil, fmt.Errorf("the tests of %s: %w", folder, err)
		}
	}
	fmt.Fprintf(r.out, "%d of %d mutants share %d programs, %d are built alone (%s)\n", together, len(mutants), len(folders), len(mutants)-together, time.Since(began).Round(time.Second))
	return alone, nil
}

// testsOf are the tests of mutants, each once.
func testsOf(mutants []mutant) (all []test, err error) {
	known := map[test]bool{}
	for i := range mutants {
		for _, name := range mutants[i].Tests {
			t, err := parseTest(name)
			if err != nil {
				return nil, fmt.Errorf("mutant %s: %w", mutants[i].Name, err)
			}
			if !known[t] {
				known[t] = true
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// baseline runs every test while all rules are in. One that fails has no say about
// the mutants that it should kill.
func (r *runner) baseline(ctx context.Context, mutants []mutant) error {
	began := time.Now()
	tests, err := testsOf(mutants)
	if err != nil {
		return err
	}
	r.sick = map[test]bool{}
	r.each(len(tests), func(i int) {
		t := tests[i]
		result, said, err := runTest(ctx, r.root, r.programs[t.folder].file, t, r.limit, 0)
		if ctx.Err() != nil || err == nil && result == passed {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sick[t] = true
		fmt.Fprintf(r.out, "FAILING  %s %s while every rule is in: %v\n%s\n", t, result, err, said)
	})
	fmt.Fprintf(r.out, "%d of %d tests pass while every rule is in (%s)\n", len(tests)-len(r.sick), len(tests), time.Since(began).Round(time.Second))
	return ctx.Err()
}

// mutant runs one and says how it went.
func (r *runner) mutant(ctx context.Context, number int, m *mutant, alone bool) {
	if ctx.Err() != nil {
		return
	}
	began := time.Now()
	verdict, err := r.kill(ctx, number, m, alone)
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	word := "killed  "
	switch {
	case errors.Is(err, errSurvived):
		word = "SURVIVED"
	case err != nil:
		word = "UNKNOWN "
	default:
		r.killed++
	}
	if err != nil {
		verdict = err.Error()
		r.bad = append(r.bad, m.Name)
	}
	fmt.Fprintf(r.out, "%s %-32s %5.1fs  %s\n", word, m.Name, time.Since(began).Seconds(), verdict)
}

// errSurvived reports a test that passes although the rule that it holds is taken out.
var errSurvived = errors.New("a test is missing")

// kill runs a mutant's tests and requires each of them to fail.
func (r *runner) kill(ctx context.Context, number int, m *mutant, alone bool) (string, error) {
	laid := ""
	if alone {
		folder, err := os.MkdirTemp(r.folder, "alone-")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(folder)
		if laid, err = overlay.Write(r.root, folder, m.edits()); err != nil {
			return "", err
		}
	}
	limit := r.limit
	if m.Hangs {
		limit = min(limit, hangLimit)
	}
	var verdicts []string
	built := ""
	for _, name := range m.Tests {
		t, err := parseTest(name)
		if err != nil {
			return "", err
		}
		r.mu.Lock()
		sick := r.sick[t]
		r.mu.Unlock()
		if sick {
			return "", fmt.Errorf("%s fails while every rule is in", t)
		}
		file := r.programs[t.folder].file
		if alone {
			file = filepath.Join(filepath.Dir(laid), "mutant.test")
			if t.folder != built {
				if err := buildTests(ctx, r.root, t.folder, laid, file); err != nil {
					return "", err
				}
				built = t.folder
			}
		}
		result, said, err := runTest(ctx, r.root, file, t, limit, number)
		switch {
		case err != nil:
			return "", err
		case result == failed || result == panicked || result == hung && m.Hangs:
		case result == hung:
			return "", fmt.Errorf("%s did not end; a test must notice by itself, or the mutant must say that it hangs", t)
		default:
			return "", fmt.Errorf("%w: %s %s although the rule was taken out: %s", errSurvived, t, result, m.Rule)
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
