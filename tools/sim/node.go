package main

import (
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/netio"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
	"github.com/pulsemq/pulsemq/shard/reactor"
)

type nodeState uint8

const (
	nodeDown nodeState = iota
	nodeStarting
	nodeUp
	nodeDraining
	nodeStopping
)

// node is one broker: its disk stays, its process comes and goes. A life is one process.
type node struct {
	world *world
	id    core.NodeID
	files *mem.FS
	life  int
	state nodeState

	config   core.Config
	step     *reactor.Stepwise
	drivers  []*mem.Driver
	reactors []*netio.Reactor
	listener netio.Listener
	wires    []*wire

	shardDue   []int64 // when each shard has its next turn; 0 none
	stopped    []bool
	reactorDue []int64
	kicked     []bool // reactors
	jobDue     bool

	failures int // starts that failed in a row
}

// kicker wakes a reactor.
type kicker struct {
	node    *node
	life    int
	reactor int
}

// Kick gives the reactor a turn soon.
func (k *kicker) Kick() {
	if n := k.node; n.life == k.life && !n.kicked[k.reactor] {
		n.kicked[k.reactor] = true
		n.later(k.reactor, n.world.between(1e3, 30e3))
	}
}

// disks is the node's disk as reactor.Options want it.
type disks struct{ node *node }

// FS is the blocking view.
func (d disks) FS() core.FS { return d.node.files }

// Driver makes a shard's driver.
func (d disks) Driver(core.Waker) (core.DiskDriver, error) {
	w := d.node.world
	driver := d.node.files.Driver(mem.DriverOptions{
		Clock: w.clock, Reorder: w.plan.reorder, Seed: w.random.Uint64(), LatencyMin: 5e3, LatencyMax: w.plan.diskLatencyMax,
	})
	d.node.drivers = append(d.node.drivers, driver)
	return driver, nil
}

// start begins a process.
func (n *node) start() {
	w, p := n.world, &n.world.plan
	n.life++
	n.state = nodeStarting
	n.config = p.config(n.id)
	w.groups.configure(&n.config)
	shards, reactors := n.config.Broker.Shards, n.config.Broker.Reactors
	n.drivers, n.reactors, n.wires = nil, nil, nil
	n.shardDue, n.stopped = make([]int64, shards), make([]bool, shards)
	n.reactorDue, n.kicked, n.jobDue = make([]int64, reactors), make([]bool, reactors), false
	w.note("start", int64(n.id), int64(n.life), int64(shards), int64(reactors))
	life := n.life
	step, err := reactor.StartStepwise(reactor.StepOptions{
		Options: reactor.Options{Config: &n.config, Disks: disks{n}, Clock: w.clock, Log: w.log},
		Random:  w.source(), Kicked: func(id core.ShardID) {
			if n.life == life {
				n.turnAt(id, w.clock.monotonic+w.between(500, 20e3))
			}
		},
		RequestSlots: p.requestSlots, AnswerSlots: p.answerSlots, LetterSlots: p.letterSlots, JobsMax: p.jobsMax,
		IngestBytes: p.ingestBytes, LocalBytes: p.localBytes, HoldBytes: p.holdBytes, CacheBytes: p.cacheBytes,
	})
	if err != nil {
		w.note("start failed", int64(n.id), int64(n.life))
		n.startFailed(err)
		return
	}
	n.step = step
	for i, links := range step.Links {
		for _, link := range links {
			link.Reactor = &kicker{n, life, i}
		}
	}
	for i := range n.shardDue {
		n.turnAt(core.ShardID(i), w.clock.monotonic)
	}
}

// startFailed looks whether the start had a reason to fail, and tries again.
func (n *node) startFailed(err error) {
	w := n.world
	n.life++
	n.state = nodeDown
	n.failures++
	w.ledger.processEnded()
	n.files = n.files.Kill(w.random.Uint64()) // closes what was open; what was written stays
	w.faults.afterEnd(n, err)
	if w.failed != nil {
		return
	}
	if n.failures > 20 {
		w.fail("node %d does not start: %v", n.id, err)
		return
	}
	w.after(w.between(10e6, 100e6), n.start)
}

// turnAt has a shard take its turn at a time, or before when it is due earlier.
func (n *node) turnAt(id core.ShardID, at int64) {
	if due := n.shardDue[id]; due != 0 && due <= at || n.stopped[id] {
		return
	}
	n.shardDue[id] = at
	life := n.life
	n.world.at(at, func() {
		if n.life == life && n.shardDue[id] == at {
			n.shardDue[id] = 0
			n.turn(id)
		}
	})
}

// turn is one turn of a shard.
func (n *node) turn(id core.ShardID) {
	w := n.world
	sleep, ended, err := n.step.Turn(id)
	if err != nil {
		n.died(err)
		return
	}
	n.work()
	if ended {
		n.stopped[id] = true
		w.note("shard stopped", int64(n.id), int64(id))
		n.ending()
		return
	}
	if n.state == nodeStarting && n.step.Ready() {
		n.ready()
	}
	at := w.clock.monotonic + w.between(500, 10e3)
	if sleep > 0 {
		at = w.clock.monotonic + sleep
		if due, pending := n.drivers[id].Due(); pending {
			at = min(at, max(due, w.clock.monotonic+500))
		}
	}
	n.turnAt(id, at)
}

// work has the workers do a job soon when there is one.
func (n *node) work() {
	if n.jobDue || n.step.Jobs() == 0 {
		return
	}
	n.jobDue = true
	life := n.life
	n.world.after(n.world.between(10e3, n.world.plan.jobDelayMax), func() {
		if n.life != life {
			return
		}
		n.jobDue = false
		n.step.RunJob()
		n.work()
	})
}

// ready opens the node to clients.
func (n *node) ready() {
	w := n.world
	n.failures = 0
	settings := netio.NewSettings(&n.config, w.plan.windowBudget/int64(len(n.step.Links)))
	n.listener = netio.Listener{AdvertisedHost: "node", AdvertisedPort: 9090}
	for i, links := range n.step.Links {
		n.reactors = append(n.reactors, netio.NewReactor(netio.ReactorOptions{
			Index: i, Settings: settings, Clock: w.clock, Views: n.step.Views, Links: links,
		}))
	}
	n.state = nodeUp
	w.note("ready", int64(n.id), int64(n.life))
	w.ledger.started(n)
	n.tick(n.life)
}

// tick has the reactors look at their deadlines ten times a second.
func (n *node) tick(life int) {
	if n.life != life || n.state == nodeStopping {
		return
	}
	for i, r := range n.reactors {
		n.later(i, r.Tick())
		if n.life != life {
			return
		}
	}
	n.world.after(100e6, func() { n.tick(life) })
}

// later gives a reactor a turn after a time, when it wants one.
func (n *node) later(i int, wait int64) {
	if wait <= 0 {
		return
	}
	at := n.world.clock.monotonic + wait
	if due := n.reactorDue[i]; due != 0 && due <= at {
		return
	}
	n.reactorDue[i] = at
	life := n.life
	n.world.at(at, func() {
		if n.life != life || n.reactorDue[i] != at {
			return
		}
		n.reactorDue[i] = 0
		n.kicked[i] = false
		if i < len(n.reactors) {
			n.later(i, n.reactors[i].Turn())
		}
	})
}

func (n *node) leastConnected() int {
	counts := make([]int, len(n.reactors))
	for _, c := range n.wires {
		counts[c.reactor]++
	}
	least := 0
	for i := range counts {
		if counts[i] < counts[least] {
			least = i
		}
	}
	return least
}

func (n *node) forget(c *wire) {
	for i := range n.wires {
		if n.wires[i] == c {
			n.wires = append(n.wires[:i], n.wires[i+1:]...)
			return
		}
	}
}

// died is the end of a process whose shard met a fatal error.
func (n *node) died(err error) {
	w := n.world
	w.note("died", int64(n.id), int64(n.life))
	w.faults.injected.deaths++
	w.ledger.diskFailed()
	w.ledger.processEnded()
	n.end(func() { n.files = n.files.Kill(w.random.Uint64()) })
	w.faults.afterEnd(n, err)
	if w.failed == nil {
		w.after(w.between(10e6, 200e6), n.start)
	}
}

// kill is kill -9: what was written stays with the kernel.
func (n *node) kill() {
	if n.state == nodeDown {
		return
	}
	w := n.world
	w.note("kill", int64(n.id), int64(n.life))
	w.faults.injected.kills++
	w.ledger.processEnded()
	n.end(func() { n.files = n.files.Kill(w.random.Uint64()) })
	w.after(w.between(10e6, 200e6), n.start)
}

// powerCut forgets what was not synced. It may find the node down.
func (n *node) powerCut() {
	w := n.world
	fate := func() mem.Fate {
		return []mem.Fate{mem.FateRandom, mem.FateRandom, mem.FateDrop, mem.FateKeep}[w.random.IntN(4)]
	}
	options := mem.CrashOptions{Data: fate(), Entries: fate(), InFlight: fate(), SectorBytes: []int{512, 4096}[w.random.IntN(2)]}
	w.note("power cut", int64(n.id), int64(options.Data), int64(options.Entries), int64(options.InFlight))
	w.faults.injected.powerCuts++
	wasDown := n.state == nodeDown
	w.ledger.powerCut()
	n.end(func() { n.files = n.files.Crash(w.random.Uint64(), options) })
	if !wasDown {
		w.after(w.between(10e6, 200e6), n.start)
	}
}

// end is the sudden end of a process. The disk changes before its memory goes.
func (n *node) end(disk func()) {
	disk()
	wasUp := n.state != nodeDown
	n.life++
	n.state = nodeDown
	if n.step != nil && wasUp {
		n.step.Abandon()
	}
	n.step = nil
	wires := n.wires
	n.wires = nil
	for _, c := range wires {
		c.cut()
	}
	n.world.faults.arm(n)
}

// stop is a clean stop: SIGTERM.
func (n *node) stop() {
	if n.state != nodeUp {
		return
	}
	n.state = nodeDraining
	n.world.note("stop", int64(n.id), int64(n.life))
	n.world.faults.injected.stops++
	for _, r := range n.reactors {
		r.Drain()
	}
	n.drain(n.life, n.world.clock.monotonic+int64(20*time.Second))
}

// drain waits for what is under way, as Server.Shutdown does.
func (n *node) drain(life int, deadline int64) {
	if n.life != life {
		return
	}
	w := n.world
	all := true
	for i, r := range n.reactors {
		all = all && r.Drained()
		n.later(i, r.Turn())
	}
	if !all && w.clock.monotonic < deadline {
		w.after(5e6, func() { n.drain(life, deadline) })
		return
	}
	for _, r := range n.reactors {
		r.Farewell()
	}
	for len(n.wires) > 0 {
		n.wires[0].Close()
	}
	n.state = nodeStopping
	n.leave(life, w.clock.monotonic+int64(time.Second))
}

// leave has the shards stop once the reactors have given back what their connections held.
func (n *node) leave(life int, deadline int64) {
	if n.life != life {
		return
	}
	w := n.world
	for i := range n.reactors {
		if (n.reactorDue[i] != 0 || n.kicked[i]) && w.clock.monotonic < deadline {
			w.after(1e6, func() { n.leave(life, deadline) })
			return
		}
	}
	n.step.BeginStop(time.Minute)
	for i := range n.shardDue {
		n.turnAt(core.ShardID(i), w.clock.monotonic)
	}
}

// ending ends the process once every shard has stopped.
func (n *node) ending() {
	w := n.world
	for _, stopped := range n.stopped {
		if !stopped {
			return
		}
	}
	for i := range n.drivers {
		if n.drivers[i].Pending() > 0 { // what is in flight is waited for
			life := n.life
			w.after(100e3, func() {
				if n.life == life {
					n.ending()
				}
			})
			buffer := make([]*core.DiskOp, 64)
			n.drivers[i].Reap(buffer)
			return
		}
	}
	if n.step.Jobs() > 0 { // as Pool.Close does
		for n.step.RunJob() {
		}
	}
	w.note("stopped", int64(n.id), int64(n.life))
	w.stoppedClean(n)
	if err := n.step.End(); err != nil {
		w.fail("node %d: close the disks after a clean stop: %v", n.id, err)
	}
	n.life++
	n.state = nodeDown
	n.step = nil
	w.ledger.stoppedClean()
	w.faults.arm(n)
	w.after(w.between(10e6, 200e6), n.start)
}

// parcelsUnderWay empties the rings of a shard that has stopped, and says how many
// bytes of parcels were in them.
func (n *node) parcelsUnderWay(shard int) (bytes int64) {
	for _, links := range n.step.Links {
		link := links[shard]
		for answer, ok := link.Answers.Pop(); ok; answer, ok = link.Answers.Pop() {
			if answer.Parcel != nil {
				bytes += int64(answer.Parcel.Bytes)
			}
		}
		for request, ok := link.Requests.Pop(); ok; request, ok = link.Requests.Pop() {
			if request.Kind == mail.RequestReturn {
				bytes += int64(request.Parcel.Bytes)
			}
		}
	}
	return bytes
}

func (n *node) String() string { return fmt.Sprintf("node %d", n.id) }
