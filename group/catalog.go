package group

import (
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// lookNanos is the least time between two looks through all topics for patterns, while
// nobody joins.
const lookNanos = 1e9

// Refresh takes what has changed in the metadata since the last look: topics that came or
// went, partitions that were added. It returns how many topics it held against patterns.
// Commands come through reactors that hear of changes at different times: an older view than
// the one of the last look would take topics away that are there, from members that go on
// reading them.
func (g *Group) Refresh(catalog Catalog, now int64) (looked int) {
	switch {
	case len(g.Members) == 0 || catalog.Epoch() < g.catalogEpoch:
		return 0
	case !g.unlooked && (catalog.Epoch() == g.catalogEpoch || g.catalogEpoch != 0 && now-g.catalogAt < lookNanos):
		return 0
	}
	g.looked = 0
	if g.look(catalog, now) {
		g.share(now)
	}
	return g.looked
}

// look finds the topics that members want. It returns whether they are others than before.
func (g *Group) look(catalog Catalog, now int64) bool {
	g.catalogEpoch, g.catalogAt, g.unlooked = catalog.Epoch(), now, false
	found := make(map[string]*core.Topic)
	patterns := make(map[string]*Member)
	for _, m := range g.Members {
		for _, name := range m.Names {
			if t := catalog.TopicByName(name); t != nil && !core.TopicReserved(name) {
				found[name] = t
			}
		}
		if m.Pattern != "" {
			patterns[m.Pattern] = m
		}
	}
	if len(patterns) > 0 {
		catalog.TopicsAfter("", func(t *core.Topic) bool {
			g.looked++
			if found[t.Name] == nil && !core.TopicReserved(t.Name) {
				for _, m := range patterns {
					if m.pattern.MatchString(t.Name) {
						found[t.Name] = t
						break
					}
				}
			}
			return true
		})
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	old := make(map[core.TopicID]*Topic, len(g.Topics))
	for _, t := range g.Topics {
		old[t.ID] = t
	}
	changed := false
	topics, left, room := make([]*Topic, 0, len(names)), core.GroupPartitionsMax, g.WeightMax-g.membersWeight()
	total := 0                   // partitions that the group shares
	for _, name := range names { // what the group shares already comes before what is new
		if mine := old[found[name].ID]; mine != nil {
			left -= len(mine.Partitions)
			room -= topicWeight(name, len(mine.Partitions))
			total += len(mine.Partitions)
		}
	}
	room -= g.sharesWeight(len(g.Members), total)
	g.LeftOut = 0
	for _, name := range names {
		t := found[name]
		mine := old[t.ID]
		more, grown := len(t.Partitions), topicWeight(name, len(t.Partitions))
		if mine != nil {
			more, grown = more-len(mine.Partitions), grown-topicWeight(name, len(mine.Partitions))
		}
		grown += g.sharesWeight(len(g.Members), total+max(0, more)) - g.sharesWeight(len(g.Members), total)
		fits := more <= 0 || more <= left && grown <= room
		switch {
		case fits:
			left, room, total = left-max(0, more), room-max(0, grown), total+max(0, more)
		case mine == nil: // nobody's; LeftOut tells, and DESCRIBE_GROUP shows what is shared
			g.LeftOut++
			continue
		default:
			g.LeftOut++
		}
		if mine == nil {
			mine, changed = &Topic{ID: t.ID, Name: name}, true
		}
		delete(old, t.ID)
		for fits && len(mine.Partitions) < len(t.Partitions) {
			mine.Partitions = append(mine.Partitions, Partition{})
			changed = true
		}
		topics = append(topics, mine)
	}
	if len(old) > 0 { // who had partitions of a topic that is gone is told
		changed = true
		lost := make(map[*Member]bool)
		for _, t := range old {
			for i := range t.Partitions {
				if m := t.Partitions[i].Holder; m != nil {
					lost[m] = true
				}
				for _, m := range t.Partitions[i].Shared {
					lost[m] = true
				}
			}
		}
		version := g.next()
		for m := range lost {
			m.Version = version
		}
	}
	g.Topics = topics
	if changed {
		g.Dirty = true
	}
	return changed
}

// wants says whether a member reads a topic.
func (m *Member) wants(t *Topic) bool {
	if _, ok := slices.BinarySearchFunc(m.Names, t.Name, strings.Compare); ok {
		return true
	}
	return m.pattern != nil && m.pattern.MatchString(t.Name)
}
