package group

import "slices"

// shareQueue makes a queue group's shares anew. Each partition goes to everybody who reads
// its topic while SharesMax allows that, else to as many as it allows, the same for
// each partition, and loads differ by one at most among those that read the same. Nothing
// moves that need not. What is taken is gone and what is given may be used at once: each
// message is leased to one member, so nobody has to wait for anybody.
func (g *Group) shareQueue() {
	readers := make([][]*Member, len(g.Topics)) // per topic, in the order of ids
	wanted := 0
	for i, t := range g.Topics {
		readers[i] = g.readers(t)
		if len(readers[i]) > 0 {
			wanted += len(t.Partitions)
		}
	}
	s := sharing{most: max(1, g.SharesMax/max(1, wanted)), changed: make(map[*Member]bool)}
	for _, m := range g.Members {
		m.load, m.marked = 0, 0
	}
	for i, t := range g.Topics {
		s.mark(readers[i])
		for k := range t.Partitions {
			p := &t.Partitions[k]
			for j := len(p.Shared) - 1; j >= 0; j-- {
				if m := p.Shared[j]; m.marked == s.marks {
					m.load++
				} else {
					p.Shared = slices.Delete(p.Shared, j, j+1)
					s.changed[m] = true
				}
			}
		}
	}
	for i, t := range g.Topics {
		for k := range t.Partitions {
			s.size(&t.Partitions[k], readers[i])
		}
	}
	for moved := true; moved; { // each move brings two loads closer, so it ends
		moved = false
		for i, t := range g.Topics {
			if s.most >= len(readers[i]) { // everybody has it
				continue
			}
			for k := range t.Partitions {
				moved = s.level(&t.Partitions[k], readers[i]) || moved
			}
		}
	}
	for m := range s.changed { // the same number for all: no order shows
		m.Version = g.Epoch
	}
}

// sharing is one run of shareQueue.
type sharing struct {
	most    int // members of a partition
	changed map[*Member]bool
	marks   int
}

// mark makes members told from all others, until the next mark.
func (s *sharing) mark(members []*Member) {
	s.marks++
	for _, m := range members {
		m.marked = s.marks
	}
}

// size gives a partition as many members as it may have.
func (s *sharing) size(p *Partition, readers []*Member) {
	want := min(s.most, len(readers))
	for len(p.Shared) > want {
		s.take(p, busiest(p.Shared))
	}
	if len(p.Shared) == want {
		return
	}
	s.mark(p.Shared)
	idle := make([]*Member, 0, len(readers)-len(p.Shared))
	for _, m := range readers {
		if m.marked != s.marks {
			idle = append(idle, m)
		}
	}
	if len(p.Shared)+len(idle) > want {
		slices.SortStableFunc(idle, func(a, b *Member) int { return a.load - b.load })
	}
	for _, m := range idle[:want-len(p.Shared)] {
		s.give(p, m)
	}
}

// level moves one place of a partition from who has most to a reader with at least two less.
func (s *sharing) level(p *Partition, readers []*Member) bool {
	from := busiest(p.Shared)
	var to *Member
	for _, m := range readers {
		if p.Shared[from].load-m.load >= 2 && (to == nil || m.load < to.load) && !slices.Contains(p.Shared, m) {
			to = m
		}
	}
	if to == nil {
		return false
	}
	s.take(p, from)
	s.give(p, to)
	return true
}

func (s *sharing) give(p *Partition, m *Member) {
	p.Shared = append(p.Shared, m)
	m.load++
	s.changed[m] = true
}

func (s *sharing) take(p *Partition, i int) {
	m := p.Shared[i]
	p.Shared = slices.Delete(p.Shared, i, i+1)
	m.load--
	s.changed[m] = true
}

// busiest is the place of the member with the largest load.
func busiest(members []*Member) int {
	best := 0
	for i, m := range members {
		if m.load > members[best].load {
			best = i
		}
	}
	return best
}

// readers are the members that read a topic, in the order of their ids.
func (g *Group) readers(t *Topic) (readers []*Member) {
	for _, m := range g.Members {
		if m.wants(t) {
			readers = append(readers, m)
		}
	}
	return readers
}

// Shares says whether a member may lease from a partition.
func (p *Partition) Shares(m *Member) bool { return slices.Contains(p.Shared, m) }
