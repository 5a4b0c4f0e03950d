// Chaos runs a real broker on a real disk under load, ends it at random moments in every way a process can end, starts
// it again, and compares what it kept with a ledger of what it had acknowledged. It is what make chaos runs.
//
// A round is: start the broker (with another number of shards or another disk driver, now and then), send to topics of
// every durability while others are trimmed, compacted, created and deleted, fault it once or more, let the client
// reconnect, stop sending, read everything back. What has to hold is written at ledger.audit.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	plan := plan{}
	keep := false
	flag.StringVar(&plan.program, "bin", "bin/pulsemq", "the broker's `program`")
	flag.StringVar(&plan.folder, "dir", "", "`folder` to work in; a temporary one by default")
	flag.StringVar(&plan.forgetful, "forgetful", "", "the `program` of tools/chaos/forgetful: the data folder lies on its disk, and power cuts join the faults; needs root and /dev/fuse")
	faults := flag.String("faults", "kill,term,pause", "`list` of faults to choose from: kill, term, pause, and power with --forgetful")
	flag.IntVar(&plan.rounds, "rounds", 30, "how many rounds")
	flag.Uint64Var(&plan.seed, "seed", uint64(time.Now().UnixNano()), "of the choices; the timing of processes is not in its power")
	flag.BoolVar(&keep, "keep", false, "leave the folder behind, as a failure always does")
	flag.Parse()
	plan.faults = strings.Split(*faults, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	temporary := plan.folder == ""
	if temporary {
		var err error
		if plan.folder, err = os.MkdirTemp("", "pulsemq-chaos-"); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			os.Exit(1)
		}
	}
	if p, err := exec.LookPath(plan.program); err == nil {
		plan.program, _ = filepath.Abs(p)
	}
	fmt.Printf("seed %d, folder %s\n", plan.seed, plan.folder)
	plan.say = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if err := plan.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %v\nseed %d; everything is left in %s\n", err, plan.seed, plan.folder)
		os.Exit(1)
	}
	if temporary && !keep {
		os.RemoveAll(plan.folder)
	}
}
