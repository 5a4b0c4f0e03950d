package main

import (
	"runtime"

	"github.com/pulsemq/pulsemq/core"
)

// unpinnedThreads is what the Go scheduler needs beside the pinned threads, so
// that the garbage collector never waits for one of them.
const unpinnedThreads = 2

// processors spreads shards and reactors over the machine: shards from the last
// processor down, reactors from the first up. Without enough of them, or without
// pinning, both are nil and the kernel decides.
func processors(b *core.BrokerConfig) (shards, reactors []int) {
	if need := b.Shards + b.Reactors + unpinnedThreads; runtime.GOMAXPROCS(0) < need {
		runtime.GOMAXPROCS(need)
	}
	count := runtime.NumCPU()
	if !b.PinThreads || b.Shards+b.Reactors > count {
		return nil, nil
	}
	for i := range b.Shards {
		shards = append(shards, count-1-i)
	}
	for i := range b.Reactors {
		reactors = append(reactors, i)
	}
	return shards, reactors
}
