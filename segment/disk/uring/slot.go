//go:build linux

package uring

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/posix"
)

// slotNone ends a list of slots.
const slotNone = -1

// slotState is how far an operation has come.
type slotState uint8

const (
	slotWaits     slotState = iota // an earlier operation of its chain has not succeeded yet
	slotRuns                       // with the kernel or a worker
	slotSucceeded                  // ended well; an earlier one of its run has not ended yet
	slotFailed                     // ended badly
	slotAgain                      // not done, for a reason that is not the operation's: to be started again
)

// slot is a place for one pending operation. All are made with the driver.
type slot struct {
	op     *core.DiskOp
	file   *posix.File // what op.File named when it was submitted
	next   int32       // next of its chain, or next free
	chain  int32       // its chain's place
	state  slotState
	split  bool  // was made a no-op because its run was submitted only in part
	joined int32 // writes behind it in the chain that its entry makes too
	done   int   // bytes read or written so far
	tries  int32 // times that it was started
}

// chain is a submitted chain.
//
// Invariants: first is its oldest operation that has not ended; the running
// operations are of one run, from first on.
type chain struct {
	first   int32
	running int32 // completions outstanding
	vector  int32 // of its room in places.vectors, used by the run
	next    int32 // next free chain
}

// places are the slots and chains of a driver, with their free lists.
type places struct {
	slots                []slot
	chains               []chain
	vectors              []iovec // vectorMax for each chain
	slotFree, chainsFree int32
}

func newPlaces(count int) places {
	p := places{slots: make([]slot, count), chains: make([]chain, count), vectors: make([]iovec, count*vectorMax), slotFree: slotNone, chainsFree: slotNone}
	for i := int32(count) - 1; i >= 0; i-- {
		p.slots[i].next, p.slotFree = p.slotFree, i
		p.chains[i].next, p.chainsFree = p.chainsFree, i
	}
	return p
}

func (p *places) takeSlot() int32 {
	i := p.slotFree
	core.Assert(i != slotNone, "there is a slot for every pending operation")
	p.slotFree = p.slots[i].next
	p.slots[i] = slot{next: slotNone}
	return i
}

func (p *places) giveSlot(i int32) {
	p.slots[i] = slot{next: p.slotFree} // forgets the operation and its file
	p.slotFree = i
}

func (p *places) takeChain() int32 {
	i := p.chainsFree
	core.Assert(i != slotNone, "there is a place for every pending chain")
	p.chainsFree = p.chains[i].next
	p.chains[i] = chain{first: slotNone}
	return i
}

func (p *places) giveChain(i int32) {
	p.chains[i].next = p.chainsFree
	p.chainsFree = i
}
