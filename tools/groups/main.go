// Groups measures what consumer groups promise beside throughput, against a broker that it starts:
//
//	go run ./tools/groups rebalance   how long a group of many members takes to settle when one joins or leaves,
//	                                  and how long records of partitions that stay wait meanwhile
//	go run ./tools/groups lives       what memory the broker takes before, while and after many groups live and die
//	go run ./tools/groups scrape      how long the page of metrics takes with many groups and partitions
//
// It fails when a promise is not kept. What is measured stands in docs/benchmarks/groups.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/pulsemq/pulsemq/tools/groups/measure"
	"github.com/pulsemq/pulsemq/tools/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := build(func(program string) error { return run(ctx, os.Stdout, program, os.Args[1:]) }); err != nil {
		fmt.Fprintln(os.Stderr, "groups:", err)
		os.Exit(1)
	}
}

// build builds the broker for as long as something uses it.
func build(use func(program string) error) error {
	folder, err := os.MkdirTemp("", "groups-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := process.Build(folder, "pulsemq"); err != nil {
		return err
	}
	return use(filepath.Join(folder, "pulsemq"))
}

// measurement is one of the commands.
type measurement interface {
	flags(*flag.FlagSet)
	settings() []string // of the broker
	measure(context.Context, *measure.Broker, measure.Say) error
}

func run(ctx context.Context, out io.Writer, program string, args []string) error {
	commands := map[string]measurement{"rebalance": new(rebalance), "lives": new(lives), "scrape": new(scrape)}
	if len(args) == 0 || commands[args[0]] == nil {
		return fmt.Errorf("usage: groups rebalance|lives|scrape [flags]; %q is given", args)
	}
	command := commands[args[0]]
	set := flag.NewFlagSet(args[0], flag.ContinueOnError)
	command.flags(set)
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "groups-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	arguments := []string{"--data-dir", filepath.Join(folder, "data"), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	for _, setting := range append(command.settings(), "storage.journal-size=64MiB", "storage.journal-file-size=16MiB", "admin.pprof=true") {
		arguments = append(arguments, "--set", setting)
	}
	broker, err := process.Start(program, filepath.Join(folder, "broker.log"), arguments...)
	if err != nil {
		return err
	}
	defer broker.Destroy()
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	if err := command.measure(ctx, &measure.Broker{Address: broker.Address, Admin: broker.Admin}, say); err != nil {
		return err
	}
	return broker.Terminate()
}
