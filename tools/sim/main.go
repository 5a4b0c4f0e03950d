package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the first run; the others follow")
	runs := flag.Int("runs", 1, "how many runs")
	loud := flag.Bool("v", false, "print every event")
	flag.Parse()
	for i := range *runs {
		w := newWorld(*seed+uint64(i), *loud)
		if err := w.run(); err != nil {
			fmt.Printf("%sseed %d: %v\n", w.trace.last(), w.seed, err)
			os.Exit(1)
		}
		fmt.Printf("seed %d digest %x events %d %+v\n", w.seed, w.trace.digest, w.counts.turns, w.counts)
	}
}
