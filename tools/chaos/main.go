// Chaos runs a real broker and hurts it, and compares what it kept with a ledger of what it had acknowledged. Each way
// of hurting it is a scenario; what has to hold is written at each, and at ledger.audit.
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
	launched(os.Args)
	on := stage{}
	var names, faults string
	keep := false
	flag.StringVar(&on.program, "bin", "bin/pulsemq", "the broker's `program`")
	flag.StringVar(&on.folder, "dir", "", "`folder` to work in; a temporary one by default")
	flag.StringVar(&on.forgetful, "forgetful", "", "the `program` of tools/chaos/forgetful, for scenarios on its disk; they need root and /dev/fuse")
	flag.StringVar(&names, "scenario", "", "`list` of scenarios; all by default: "+scenarioNames())
	flag.StringVar(&faults, "faults", "", "`list` of faults that rounds choose from: kill, term, pause, and power with -forgetful; kill,kill,term,pause by default")
	flag.IntVar(&on.rounds, "rounds", 100, "how many rounds of random faults")
	flag.BoolVar(&on.long, "long", true, "the long form of each scenario")
	flag.Uint64Var(&on.seed, "seed", uint64(time.Now().UnixNano()), "of the choices; the timing of processes is not in its power")
	flag.BoolVar(&keep, "keep", false, "leave the folder behind, as a failure always does")
	flag.Parse()
	if err := run(on, list(names), list(faults), keep); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func run(on stage, names, faults []string, keep bool) error {
	if len(faults) > 0 && len(names) == 0 {
		names = []string{"rounds"} // which are what faults are for
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	on.faults = faults
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	temporary := on.folder == ""
	if temporary {
		if on.folder, err = os.MkdirTemp("", "pulsemq-chaos-"); err != nil {
			return err
		}
	}
	for _, program := range []*string{&on.program, &on.forgetful} {
		if found, err := exec.LookPath(*program); err == nil {
			*program, _ = filepath.Abs(found)
		}
	}
	fmt.Printf("seed %d, folder %s\n", on.seed, on.folder)
	on.say = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if err := playAll(ctx, chosen, on); err != nil {
		return fmt.Errorf("%w\nseed %d; everything is left in %s", err, on.seed, on.folder)
	}
	if temporary && !keep {
		return os.RemoveAll(on.folder)
	}
	return nil
}
