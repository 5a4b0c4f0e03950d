package main

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// faults are what the world does to its nodes, and what has to be seen of it.
type faults struct {
	world  *world
	on     bool
	rules  []*rule
	hits   int // of rules that are gone
	jumped bool
}

// rule is a fault of a disk with what was known when it was injected.
type rule struct {
	fault *mem.Fault
}

// begin plans the faults of a run.
func (f *faults) begin() {
	w, p := f.world, &f.world.plan
	f.on = true
	if len(p.ends) > 0 {
		f.endLater()
	}
	if p.resets {
		f.later(100e6, 600e6, f.resetWire)
	}
	if p.stalls {
		f.later(100e6, 400e6, f.stallWire)
	}
	if p.clockJumps {
		f.later(300e6, 900e6, f.jumpClock)
	}
	if p.diskFaults {
		f.later(100e6, 700e6, f.breakDisk)
	}
	if p.fullDisk {
		f.later(200e6, 800e6, f.fillDisk)
	}
	_ = w
}

// later does something again and again while faults are on.
func (f *faults) later(least, most int64, do func()) {
	f.world.after(f.world.between(least, most), func() {
		if f.on && f.world.failed == nil {
			do()
			f.later(least, most, do)
		}
	})
}

func (f *faults) endLater() {
	w, p := f.world, &f.world.plan
	f.later(p.endEvery/2, p.endEvery, func() {
		n := w.nodes[w.random.IntN(len(w.nodes))]
		if n.state == nodeDown {
			return
		}
		w.counts.ends++
		switch p.ends[w.random.IntN(len(p.ends))] {
		case "power":
			n.powerCut()
		case "twice":
			n.powerCut()
			w.after(w.between(10e6, 300e6), func() {
				if n.state != nodeDown {
					n.powerCut()
				}
			})
		case "kill":
			n.kill()
			if w.random.IntN(3) == 0 { // and the power a moment later, before anything was synced
				n.powerCut()
			}
		case "stop":
			n.stop()
		case "shards":
			p.shards = 1 + w.random.IntN(3)
			if w.random.IntN(2) == 0 {
				n.stop()
			} else {
				n.kill()
			}
		}
	})
}

func (f *faults) resetWire() {
	w := f.world
	if c := w.anyWire(); c != nil {
		switch w.random.IntN(3) {
		case 0:
			c.reset()
		case 1:
			c.resetUpAfter = w.random.IntN(2000)
		case 2:
			c.hangUp(true)
		}
	}
}

func (f *faults) stallWire() {
	w := f.world
	if c := w.anyWire(); c != nil && !c.stalled {
		w.note("stall", c.number)
		c.stall()
		w.after(w.between(50e6, 1500e6), c.resume)
	}
}

func (w *world) anyWire() *wire {
	n := w.nodes[w.random.IntN(len(w.nodes))]
	if len(n.wires) == 0 {
		return nil
	}
	return n.wires[w.random.IntN(len(n.wires))]
}

// year is by how much clocks jump.
const year = int64(365 * 24 * 3600e9)

func (f *faults) jumpClock() {
	w := f.world
	if f.jumped {
		w.clock.ahead -= year
	} else {
		w.clock.ahead += year
	}
	f.jumped = !f.jumped
	w.note("clock jumps", w.clock.Now())
}

// breakDisk injects a rule.
func (f *faults) breakDisk() {
	w := f.world
	n := w.nodes[w.random.IntN(len(w.nodes))]
	kinds := []core.DiskOpKind{core.DiskWrite, core.DiskSync, core.DiskRead, core.DiskAllocate, core.DiskCreate, core.DiskSyncDir, core.DiskOpen}
	paths := []string{"*.log", "*.jnl", "*.state", "*.index", "*"}
	fault := &mem.Fault{Kind: kinds[w.random.IntN(len(kinds))], Path: paths[w.random.IntN(len(paths))], Skip: w.random.IntN(20), Count: 1 + w.random.IntN(2)}
	switch w.random.IntN(5) {
	case 0:
		fault.Action, fault.Delay = mem.FaultDelay, w.between(10e6, 2e9)
	case 1:
		fault.Kind, fault.Action, fault.Bytes = core.DiskWrite, mem.FaultShort, w.random.IntN(8192)
	case 2:
		fault.Kind, fault.Action, fault.Bytes = core.DiskWrite, mem.FaultTear, w.random.IntN(8192)
	}
	w.note("disk fault", int64(fault.Kind), int64(fault.Action), int64(fault.Skip))
	n.files.Inject(fault)
	f.rules = append(f.rules, &rule{fault})
}

func (f *faults) fillDisk() {
	w := f.world
	n := w.nodes[w.random.IntN(len(w.nodes))]
	total, free, _ := n.files.Space()
	used := total - free
	room := w.random.Int64N(2 << 20)
	w.note("disk full", used, room)
	n.files.SetCapacity(used + room)
	w.after(w.between(100e6, 700e6), func() {
		w.note("disk has room", used)
		n.files.SetCapacity(1 << 50)
	})
}

// afterEnd looks whether a process had a reason to end by itself.
func (f *faults) afterEnd(n *node, err error) {
	if f.world.plan.diskFaults || f.world.plan.fullDisk {
		return
	}
	f.world.fail("%v ended by itself although its disk has no fault: %v", n, err)
}

// arm puts the rules that are left on the disk of the next process.
func (f *faults) arm(*node) {}

// heal ends all faults.
func (f *faults) heal() {
	f.on = false
	for _, n := range f.world.nodes {
		n.files.ClearFaults()
		n.files.SetCapacity(1 << 50)
	}
	if f.jumped {
		f.jumpClock()
	}
}
