package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// outcome is how a test ended.
type outcome uint8

const (
	notRun outcome = iota
	passed
	failed
	panicked // a broken invariant stopped the process, which is a failure too
	hung
)

func (o outcome) String() string {
	return [...]string{"was not run", "passed", "failed", "panicked", "did not end"}[o]
}

// errBuild reports a mutant that does not compile.
var errBuild = errors.New("does not build")

// buildTests builds the tests of a package, over the source or over a mutant of it.
func buildTests(ctx context.Context, root, folder, overlay, program string) error {
	// Nobody looks into it with a debugger.
	arguments := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program}
	if overlay != "" {
		arguments = append(arguments, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(arguments, ".")...)
	command.Dir = filepath.Join(root, filepath.FromSlash(folder))
	said, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", errBuild, said)
	}
	return nil
}

// runTest runs one test of a program that buildTests made, with a mutant chosen if it
// has several; 0 is none of them.
func runTest(ctx context.Context, root, program string, t test, limit time.Duration, chosen int) (outcome, string, error) {
	pattern := "^" + regexp.QuoteMeta(t.name) + "$"
	if t.sub != "" {
		pattern += "/^" + regexp.QuoteMeta(t.sub) + "$"
	}
	command := exec.CommandContext(ctx, program, "-test.v", "-test.failfast", "-test.timeout", limit.String(), "-test.run", pattern)
	command.Dir = filepath.Join(root, filepath.FromSlash(t.folder))
	command.Env = append(os.Environ(), fmt.Sprint(chosenVariable, "=", chosen))
	// A process that does not even heed its own time limit is killed.
	command.WaitDelay = time.Second
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return notRun, "", errors.Join(err, ctx.Err())
	}
	return judge(t, out.String()), out.String(), nil
}

// judge reads what a test program said of a test.
func judge(t test, said string) outcome {
	name := t.name
	if t.sub != "" {
		name += "/" + t.sub
	}
	result := notRun
	for line := range strings.Lines(said) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "panic: test timed out"):
			return hung
		case strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: "):
			result = panicked
		case result != notRun:
		case strings.HasPrefix(line, "--- PASS: "+name+" ("):
			result = passed
		case strings.HasPrefix(line, "--- FAIL: "+name+" ("):
			result = failed
		}
	}
	return result
}
