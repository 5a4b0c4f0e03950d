package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// event is a line of go test -json.
type event struct {
	Action string
	Test   string
	Output string
}

// errBuild reports a mutant that does not compile.
var errBuild = errors.New("does not build")

// runTest runs one test of a package, over the source or over a mutant of it.
func runTest(ctx context.Context, root string, t test, overlay string, limit time.Duration) (outcome, string, error) {
	pattern := "^" + regexp.QuoteMeta(t.name) + "$"
	if t.sub != "" {
		pattern += "/^" + regexp.QuoteMeta(t.sub) + "$"
	}
	arguments := []string{"test", "-json", "-vet=off", "-count=1", "-timeout", limit.String(), "-run", pattern}
	if overlay != "" {
		arguments = append(arguments, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(arguments, ".")...)
	command.Dir = filepath.Join(root, filepath.FromSlash(t.folder))
	var out, bad bytes.Buffer
	command.Stdout, command.Stderr = &out, &bad
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return notRun, "", errors.Join(err, ctx.Err())
	}
	return judge(t, out.String(), bad.String())
}

// judge reads what go test said of a test.
func judge(t test, out, bad string) (outcome, string, error) {
	name := t.name
	if t.sub != "" {
		name += "/" + t.sub
	}
	result := notRun
	var said strings.Builder
	lines := bufio.NewScanner(strings.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if e.Action == "build-fail" {
			return notRun, "", fmt.Errorf("%w: %s%s", errBuild, said.String(), bad)
		}
		said.WriteString(e.Output)
		switch {
		case e.Action == "pass" && e.Test == name:
			result = passed
		case e.Action == "fail" && e.Test == name && result == notRun:
			result = failed
		case strings.HasPrefix(e.Output, "panic: test timed out"):
			result = hung
		case (strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")) && result != hung:
			result = panicked
		}
	}
	if err := lines.Err(); err != nil {
		return notRun, "", err
	}
	return result, said.String() + bad, nil
}
