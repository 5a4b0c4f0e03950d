package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// scenario is one way to hurt a broker, with the outcome that it has to have.
type scenario struct {
	name string
	what string             // in a line, for people
	lack func(*stage) error // why it cannot run here; nil when it can
	play func(context.Context, *stage) error
}

// scenarios are all there are, in the order in which they are played.
var scenarios = slices.Concat(roundScenarios, []scenario{ackedKill, queueRounds, terminate, pause, fullDisk, refusedUring, descriptorLimit, fileLimit, littleMemory, restart, restartFull, steady})

// stage is where a scenario plays, and how far it goes.
type stage struct {
	program   string // the broker
	forgetful string // the program of the disk that forgets; empty where there is none
	folder    string // of this scenario alone
	seed      uint64
	long      bool     // the long form: everything as large as the faults list has it
	rounds    int      // of rounds that are repeated until one fails
	faults    []string // for rounds that choose
	say       func(format string, args ...any)

	random *rand.Rand
}

// pick is a size for the long form and one for the short form.
func pick[T any](s *stage, short, long T) T {
	if s.long {
		return long
	}
	return short
}

func anywhere(*stage) error { return nil }

// scenarioNames are the names, for messages.
func scenarioNames() string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// choose finds scenarios by their names; none is all.
func choose(names []string) (chosen []scenario, err error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q: there are %s", name, scenarioNames())
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

// playAll plays scenarios one after the other, each in a folder of its own, says of each what became of it, and fails
// with those that failed. The folder of one that failed stays.
func playAll(ctx context.Context, chosen []scenario, on stage) error {
	var failed []error
	var skipped, passed int
	for _, one := range chosen {
		if why := one.lack(&on); why != nil {
			on.say("SKIP %-12s %v", one.name, why)
			skipped++
			continue
		}
		on.say("---- %-12s %s", one.name, one.what)
		began := time.Now()
		err := playOne(ctx, one, on)
		took := time.Since(began).Round(100 * time.Millisecond)
		if ctx.Err() != nil {
			return errors.Join(append(failed, ctx.Err())...)
		}
		if err != nil {
			on.say("FAIL %-12s %v: %v", one.name, took, err)
			failed = append(failed, fmt.Errorf("%s: %w", one.name, err))
			continue
		}
		on.say("PASS %-12s %v", one.name, took)
		passed++
	}
	on.say("%d passed, %d failed, %d skipped", passed, len(failed), skipped)
	return errors.Join(failed...)
}

// playOne plays a scenario and removes its folder when it passed.
func playOne(ctx context.Context, one scenario, on stage) error {
	on.folder = filepath.Join(on.folder, one.name)
	on.random = rand.New(rand.NewPCG(on.seed, 0))
	if err := os.MkdirAll(on.folder, 0o700); err != nil {
		return err
	}
	if err := one.play(ctx, &on); err != nil {
		return err
	}
	return os.RemoveAll(on.folder)
}
