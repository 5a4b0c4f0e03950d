package mail

import (
	"sync/atomic"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring"
)

// Kicker ends the sleep of one thread. A kick costs a load when the thread is
// awake; a producer publishes its work first and kicks once per batch.
type Kicker interface {
	Kick()
}

// Arena is the memory for batches on their way from one reactor to one shard.
// The reactor gets and discards; the shard releases, which carries slabs home.
type Arena interface {
	core.SlabSource
	// Discard takes back a slab that the reactor got and never handed over.
	Discard(*core.Slab)
}

// Link is everything that one reactor and one shard share. There is one for
// each pair, so that each ring has a single producer and a single consumer.
type Link struct {
	Requests *ring.SPSC[Request] // reactor -> shard
	Answers  *ring.SPSC[Answer]  // shard -> reactor

	// Shard wakes the shard: the reactor kicks it after it has published requests.
	Shard Kicker
	// Reactor wakes the reactor: the shard kicks it after it has published answers.
	// The server of the reactors sets it before it sends the first request: until
	// then a shard has nothing to answer.
	Reactor Kicker

	Arena Arena

	// Starved is set by the reactor when the arena had no slab for a batch. The shard,
	// whose tail cache keeps slabs of the arena, gives some up at its next turn; without
	// that, an arena full of slabs of other sizes would refuse batches for good.
	Starved atomic.Bool
}

// Views holds the newest View. The shard of the metadata partition publishes,
// every reactor loads; a View itself never changes.
type Views struct {
	newest atomic.Pointer[core.View]
}

// Publish replaces the View.
func (v *Views) Publish(view core.View) { v.newest.Store(&view) }

// Load returns the newest View, nil before the first was published.
func (v *Views) Load() core.View {
	if p := v.newest.Load(); p != nil {
		return *p
	}
	return nil
}
