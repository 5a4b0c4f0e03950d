package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 0, "of the first run, the others count on from it; 0 draws one")
	runs := flag.Int("runs", 200, "how many runs")
	workers := flag.Int("workers", 2, "how many runs at a time")
	loud := flag.Bool("v", false, "print every event; for one run")
	keepOn := flag.Bool("k", false, "go on after a failure")
	grouped := flag.Bool("groups", false, "every run has consumer groups, not only one in three; other runs than without it")
	queued := flag.Bool("queues", false, "every run has queue groups, not only one in three; other runs than without it")
	flag.Parse()
	first := *seed
	for first == 0 {
		first = rand.Uint64() >> 16
	}
	if *loud {
		*runs, *workers = 1, 1
	}
	fmt.Printf("simulating %d runs from seed %d on\n", *runs, first)
	report := &report{out: os.Stdout, last: *runs == 1}
	if *grouped {
		report.how = " -groups"
	}
	if *queued {
		report.how += " -queues"
	}
	r := runner{options: options{*loud, *grouped, *queued}, first: first, runs: *runs, workers: *workers, keepOn: *keepOn, each: report.add}
	r.run()
	report.end()
	if report.failed > 0 {
		os.Exit(1)
	}
}
