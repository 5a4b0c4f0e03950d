package mem

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

// Fate says what a power cut does to what is not durable.
type Fate uint8

const (
	// FateRandom keeps and drops piece by piece.
	FateRandom Fate = iota
	// FateDrop loses all of it.
	FateDrop
	// FateKeep loses nothing of it.
	FateKeep
)

// CrashOptions says how a power cut treats what is not durable.
type CrashOptions struct {
	// Data is the fate of written and not synced content.
	Data Fate
	// Entries is the fate of creates, renames and unlinks without a SyncDir.
	Entries Fate
	// InFlight is the fate of operations that were submitted and not reaped: kept
	// means that they were done without the answer.
	InFlight Fate
	// SectorBytes is what the disk writes as a whole, 512 or 4096; zero is 512.
	SectorBytes int
}

// Crash returns the file system as after a power cut. Seed decides what FateRandom
// leaves open. The original is not changed, so one state can be crashed many ways.
// Faults and the limits of capacity and file size are not taken over.
func (s *FS) Crash(seed uint64, options CrashOptions) *FS {
	s.mu.Lock()
	defer s.mu.Unlock()
	if options.SectorBytes == 0 {
		options.SectorBytes = 512
	}
	core.Assert(options.SectorBytes > 0 && pageBytes%options.SectorBytes == 0, "a page is a whole number of sectors")
	dice := newDice(seed)
	c := s.clone()
	c.land(s, dice, options.InFlight)
	c.loseEntries(dice, options.Entries)
	c.eachNode(func(n *node) {
		if n.file != nil {
			n.file.lose(dice, options)
		}
	})
	c.recount()
	return c.FS
}

// Kill returns the file system as after kill -9: what was written is there, synced
// or not. Operations in flight end as the seed says. A later Crash of the copy
// still loses what is not durable.
func (s *FS) Kill(seed uint64) *FS {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clone()
	c.land(s, newDice(seed), FateRandom)
	c.eachNode(func(n *node) { n.opens = 0 })
	c.recount()
	return c.FS
}

// dice draws decisions. The odds are drawn too, once per crash: with even odds for
// every sector a state that is lost or kept almost whole would never be seen.
type dice struct {
	random *rand.Rand
	odds   float64
}

func newDice(seed uint64) *dice {
	random := rand.New(rand.NewPCG(seed, 0x6372617368))
	return &dice{random, []float64{0.02, 0.2, 0.5, 0.8, 0.98}[random.IntN(5)]}
}

func (d *dice) keep(fate Fate) bool {
	return fate == FateKeep || (fate == FateRandom && d.random.Float64() < d.odds)
}

// cloned is a copy of a file system, and where each node of the original went.
type cloned struct {
	*FS
	nodes map[*node]*node
	order []*node // the copies, in an order that is the same for every run
}

func (s *FS) clone() *cloned {
	c := &cloned{FS: New(), nodes: map[*node]*node{}}
	c.used = s.used
	c.root = c.copyNode(s.root)
	for _, change := range s.changes {
		edits := slices.Clone(change.edits)
		for i := range edits {
			edits[i].folder = c.copyNode(edits[i].folder)
			edits[i].node = c.copyNode(edits[i].node)
		}
		c.changes = append(c.changes, newChange(edits))
	}
	for _, d := range s.drivers {
		for _, h := range d.files {
			c.copyNode(h.node)
		}
	}
	return c
}

func newChange(edits []edit) change { return change{edits} }

func (c *cloned) copyNode(n *node) *node {
	if n == nil {
		return nil
	}
	if done := c.nodes[n]; done != nil {
		return done
	}
	copied := &node{opens: n.opens, linked: n.linked}
	c.nodes[n] = copied
	c.order = append(c.order, copied)
	if n.file != nil {
		copied.file = n.file.clone()
		return copied
	}
	copied.folder = &folder{entries: map[string]*node{}, durable: map[string]*node{}}
	for _, name := range namesOf(n.folder.entries) {
		copied.folder.entries[name] = c.copyNode(n.folder.entries[name])
	}
	for _, name := range namesOf(n.folder.durable) {
		copied.folder.durable[name] = c.copyNode(n.folder.durable[name])
	}
	return copied
}

func (c *cloned) eachNode(visit func(*node)) {
	for _, n := range c.order {
		visit(n)
	}
}

// land lets the operations in flight happen: of each chain a beginning.
func (c *cloned) land(s *FS, dice *dice, fate Fate) {
	for _, d := range s.drivers {
		for _, chain := range d.chains {
			if chain.failed {
				continue
			}
			for _, flying := range chain.ops {
				if !dice.keep(fate) {
					break
				}
				op := flying.copy // the owner sees nothing of it
				if op.Kind == core.DiskRead {
					continue
				}
				if usesFile(op.Kind) {
					h := d.files[op.File-1]
					if c.onFile(&op, c.nodes[h.node], h.path) != nil {
						break
					}
					continue
				}
				var err error
				if op.Kind == core.DiskOpen || op.Kind == core.DiskCreate {
					_, err = c.openOp(op.Kind, op.Path)
				} else {
					err = c.namespace(op.Kind, op.Path, op.PathNew)
				}
				if err != nil {
					break
				}
			}
		}
	}
	c.order = c.order[:0] // nodes made just now are part of it
	c.collect(c.root, map[*node]bool{})
}

// collect lists every node that a name leads to, now, durably or by a change.
func (c *cloned) collect(root *node, seen map[*node]bool) {
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		c.order = append(c.order, n)
		if n.folder == nil {
			return
		}
		for _, entries := range []map[string]*node{n.folder.entries, n.folder.durable} {
			for _, name := range namesOf(entries) {
				visit(entries[name])
			}
		}
	}
	visit(root)
	for _, change := range c.changes {
		for _, e := range change.edits {
			visit(e.folder)
			visit(e.node)
		}
	}
}

// loseEntries makes the durable names, with the changes that are kept, the only ones.
func (c *cloned) loseEntries(dice *dice, fate Fate) {
	for _, change := range c.changes {
		if dice.keep(fate) {
			change.makeDurable()
		}
	}
	c.changes = nil
	c.eachNode(func(n *node) {
		n.linked, n.opens = false, 0
		if n.folder != nil {
			n.folder.entries = maps.Clone(n.folder.durable)
		}
	})
	c.order = c.order[:0]
	c.collect(c.root, map[*node]bool{}) // what no name leads to is gone
	c.eachNode(func(n *node) { n.linked = true })
}

// recount makes used what the files with a name take; the others are not open any
// more.
func (c *cloned) recount() {
	c.used = 0
	c.eachNode(func(n *node) {
		if n.file != nil && n.linked {
			c.used += int64(len(n.file.pages)) * pageBytes
		}
	})
}

// lose makes what survives of a file's content the only content.
func (f *fileData) lose(dice *dice, options CrashOptions) {
	size := f.sizeDurable
	if len(f.sizeUnsynced) > 0 && dice.keep(options.Data) {
		size = f.sizeUnsynced[len(f.sizeUnsynced)-1]
		if options.Data == FateRandom {
			size = f.sizeUnsynced[dice.random.IntN(len(f.sizeUnsynced))]
		}
	}
	for _, number := range slices.Sorted(maps.Keys(f.unsynced)) {
		content, taken := f.survivor(number, dice, options)
		if taken {
			f.durable[number] = content
		}
	}
	clear(f.unsynced)
	clear(f.forsaken)
	f.pages = maps.Clone(f.durable)
	f.size = math.MaxInt64 // so that truncate cuts whatever lies beyond
	f.truncate(size)
	f.sync()
}

// survivor puts a page together from its durable and its unsynced versions.
func (f *fileData) survivor(number int64, dice *dice, options CrashOptions) (page, bool) {
	versions := f.unsynced[number]
	durable, taken := f.durable[number]
	switch options.Data {
	case FateDrop:
		return durable, taken
	case FateKeep:
		return versions[len(versions)-1], true
	}
	content := make(page, pageBytes)
	for at := 0; at < pageBytes; at += options.SectorBytes {
		from := durable
		if dice.keep(FateRandom) {
			from = versions[dice.random.IntN(len(versions))]
		}
		if from != nil {
			copy(content[at:at+options.SectorBytes], from[at:])
		}
	}
	return content, true
}
