package main

import "context"

// diskScenarios are rounds of load on a disk that fails, one scenario for each way, and one for all together. Together
// they alternate with the loss of power and with kills, since what a fault left behind is first seen by what comes after.
func diskScenarios() []scenario {
	all := []scenario{
		{name: "disk", what: "every fault of the disk, with kill -9 and the loss of power in between", lack: lackForgetful, play: playDisk},
	}
	for _, f := range diskFaults {
		all = append(all, scenario{name: f.name, what: f.what, lack: lackForgetful, play: func(ctx context.Context, s *stage) error {
			return s.diskPlan(f.name).run(ctx)
		}})
	}
	return all
}

// diskPlan is a plan on the disk that forgets. Whether only the sync of a folder makes names durable follows from the
// seed.
func (s *stage) diskPlan(faults ...string) *plan {
	return &plan{program: s.program, folder: s.folder, forgetful: s.forgetful, strict: s.seed%2 == 0, brief: !s.long, faults: faults, rounds: s.rounds, seed: s.seed, say: s.say}
}

func playDisk(ctx context.Context, s *stage) error {
	faults := []string{"power", "kill"}
	for _, f := range diskFaults {
		faults = append(faults, f.name)
	}
	return s.diskPlan(faults...).run(ctx)
}
