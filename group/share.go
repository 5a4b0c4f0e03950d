package group

import "slices"

// share makes the targets anew, and begins the moves that follow. What a member has stays
// with it unless that would leave the loads more than one apart.
func (g *Group) share(now int64) {
	g.Epoch = g.next()
	if g.Kind == Queue {
		g.shareQueue()
		return
	}
	for _, m := range g.Members {
		m.load = 0
	}
	wanted := make([][]*Member, len(g.Topics)) // per topic, who reads it, in the order of ids
	alike := true
	for i, t := range g.Topics {
		wanted[i] = g.readers(t)
		alike = alike && len(wanted[i]) == len(g.Members)
	}
	free := 0
	for i, t := range g.Topics {
		for k := range t.Partitions {
			p := &t.Partitions[k]
			if p.Target == nil {
				p.Target = p.Holder
			}
			if p.Target != nil && !slices.Contains(wanted[i], p.Target) {
				p.Target = nil
			}
			if p.Target != nil {
				p.Target.load++
			} else if len(wanted[i]) > 0 {
				free++
			}
		}
	}
	if alike {
		g.level()
	} else {
		g.fill(wanted)
		g.balance(wanted)
	}
	g.move(now)
}

func (g *Group) partitions() int {
	total := 0
	for _, t := range g.Topics {
		total += len(t.Partitions)
	}
	return total
}

// level shares topics out that everybody reads: loads differ by one at most, and as few
// partitions move as that allows.
func (g *Group) level() {
	if len(g.Members) == 0 {
		return
	}
	total := g.partitions()
	base, extra := total/len(g.Members), total%len(g.Members)
	order := slices.Clone(g.Members) // who has most keeps one more
	slices.SortStableFunc(order, func(a, b *Member) int { return b.load - a.load })
	quota := make(map[*Member]int, len(order))
	for i, m := range order {
		quota[m] = base
		if i < extra {
			quota[m]++
		}
	}
	// Those that a member does not hold yet go first: nobody has to stop for them.
	for _, held := range []bool{false, true} {
		for i := len(g.Topics) - 1; i >= 0; i-- {
			t := g.Topics[i]
			for k := len(t.Partitions) - 1; k >= 0; k-- {
				p := &t.Partitions[k]
				if m := p.Target; m != nil && m.load > quota[m] && (held || p.Holder != m) {
					p.Target = nil
					m.load--
				}
			}
		}
	}
	slices.SortStableFunc(order, func(a, b *Member) int { return a.load - b.load })
	at := 0
	g.each(func(_ *Topic, p *Partition) {
		if p.Target != nil {
			return
		}
		if m := p.Holder; m != nil && m.load < quota[m] { // on its way from whom it may stay with
			p.Target = m
			m.load++
			return
		}
		for tried := 0; order[at].load >= quota[order[at]] && tried < len(order); tried++ {
			at = (at + 1) % len(order)
		}
		p.Target = order[at]
		order[at].load++
		at = (at + 1) % len(order)
	})
}

// fill gives what is nobody's to the reader with the least.
func (g *Group) fill(wanted [][]*Member) {
	for i, t := range g.Topics {
		for k := range t.Partitions {
			p := &t.Partitions[k]
			if p.Target == nil && len(wanted[i]) > 0 {
				p.Target = least(wanted[i])
				p.Target.load++
			}
		}
	}
}

func least(members []*Member) *Member {
	best := members[0]
	for _, m := range members[1:] {
		if m.load < best.load {
			best = m
		}
	}
	return best
}

// balance moves partitions from readers with much to readers of the same topic with at
// least two less. Each move brings loads closer, so it ends.
func (g *Group) balance(wanted [][]*Member) {
	for moved := true; moved; {
		moved = false
		for i, t := range g.Topics {
			if len(wanted[i]) < 2 {
				continue
			}
			to := least(wanted[i])
			for k := len(t.Partitions) - 1; k >= 0; k-- {
				p := &t.Partitions[k]
				if p.Target.load-to.load < 2 {
					continue
				}
				p.Target.load--
				p.Target = to
				to.load++
				moved = true
				to = least(wanted[i])
			}
		}
	}
}

// move begins what the new targets ask for: who has to give up is told, and what is free is given.
func (g *Group) move(now int64) {
	told := make(map[*Member]bool)
	g.each(func(_ *Topic, p *Partition) {
		if p.Holder != nil && p.Holder != p.Target {
			told[p.Holder] = true
		}
	})
	for _, m := range g.Members {
		switch {
		case told[m] && m.MoveBy == 0:
			m.MoveBy = now + m.Rebalance
			m.Version = g.Epoch
		case told[m]: // more to give up than before, or less: having applied the older version says nothing of it
			m.Version = g.Epoch
		case m.MoveBy != 0: // it may keep what it was told to give up, and may have given it up already
			m.MoveBy = 0
			m.Version = g.Epoch
		}
	}
	g.give()
}
