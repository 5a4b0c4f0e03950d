package main

import (
	"context"
	"errors"
	"os"
	"slices"
)

// Rounds of random faults under load: see plan.
var roundScenarios = []scenario{
	{name: "rounds", what: "kill -9, SIGTERM and SIGSTOP at random moments under load", lack: anywhere, play: playRounds},
	{name: "power", what: "power lost at random moments under load: the disk forgets what was not synced", lack: lackForgetful, play: playPower},
}

func playRounds(ctx context.Context, s *stage) error {
	faults := s.faults
	if len(faults) == 0 {
		faults = []string{"kill", "kill", "term", "pause"}
	}
	p := plan{program: s.program, folder: s.folder, faults: faults, always: faults[0], rounds: s.rounds, seed: s.seed, say: s.say}
	if slices.Contains(faults, "power") {
		p.forgetful = s.forgetful
	}
	return p.run(ctx)
}

func playPower(ctx context.Context, s *stage) error {
	return s.diskPlan("power", "power", "kill").run(ctx)
}

// lackForgetful says why the disk that forgets cannot be mounted.
func lackForgetful(s *stage) error {
	switch {
	case os.Getuid() != 0:
		return errors.New("mounting a disk that forgets needs root")
	case s.forgetful == "":
		return errors.New("the disk that forgets is not built: name it with -forgetful")
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return errors.Join(errors.New("mounting a disk that forgets needs FUSE"), err)
	}
	return f.Close()
}
