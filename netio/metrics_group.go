package netio

import "slices"

const (
	// groupSeriesMax bounds the groups with series of their own: the first ones by name, so
	// that series stay. The others are added up under groupOthers.
	groupSeriesMax = 1_000
	groupOthers    = "(others)"
)

// groupSums adds up over shards what is known of each group. There is one sum for a group, and
// no series for each of its partitions, which would be as many as groups times partitions:
// `pulsectl group lag` tells the partitions.
type groupSums struct {
	byName map[string]*groupSum
	others groupSum
	groups int // that there are
}

type groupSum struct {
	name             string
	members          int
	partitions       int
	records, seconds float64
	queue            queueSum
}

// add takes a shard's sample. What a shard does not name belongs to groups that come behind
// groupSeriesMax others.
func (g *groupSums) add(s *ShardSample) {
	if g.byName == nil {
		g.byName = make(map[string]*groupSum)
	}
	g.groups += s.Groups
	for i := range s.Lags {
		g.sum(s.Lags[i].Group).addLag(&s.Lags[i])
	}
	g.others.addLag(&s.LagOthers)
	for i := range s.Queues {
		g.sum(s.Queues[i].Group).queue.add(&s.Queues[i])
	}
	g.others.queue.add(&s.QueueOthers)
	named := 0
	for i := range s.Members {
		g.sum(s.Members[i].Group).members += s.Members[i].Members
		named += s.Members[i].Members
	}
	g.others.members += max(0, s.GroupMembers-named)
}

func (g *groupSums) sum(name string) *groupSum {
	s := g.byName[name]
	if s == nil {
		s = &groupSum{name: name}
		g.byName[name] = s
	}
	return s
}

func (s *groupSum) addLag(l *GroupLagSample) {
	s.partitions += l.Partitions
	s.records += float64(l.Records)
	s.seconds = max(s.seconds, float64(l.Nanos)/1e9)
}

func (g *groupSums) write(p *page) {
	names := make([]string, 0, len(g.byName))
	for name := range g.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		s := g.byName[name]
		if i < groupSeriesMax {
			s.write(p)
			continue
		}
		g.others.members += s.members
		g.others.partitions += s.partitions
		g.others.records += s.records
		g.others.seconds = max(g.others.seconds, s.seconds)
		g.others.queue.add(&s.queue.GroupQueueSample)
	}
	without := max(0, g.groups-groupSeriesMax, len(names)-groupSeriesMax)
	if without > 0 {
		g.others.name = groupOthers
		g.others.write(p)
	}
	p.gauge("pulsemq_groups_without_series", "Groups beyond those that have series of their own.", float64(without))
}

func (s *groupSum) write(p *page) {
	at := label{"group", s.name}
	p.gauge("pulsemq_group_size", "Members of a group.", float64(s.members), at)
	p.gauge("pulsemq_group_partitions", "Partitions that a group has committed to, or read.", float64(s.partitions), at)
	p.gauge("pulsemq_group_lag_records", "Records that a group has not committed, summed over partitions.", s.records, at)
	p.gauge("pulsemq_group_lag_seconds", "How long ago the oldest record was stored that a group has not committed; the greatest of its partitions.", s.seconds, at)
	s.queue.write(p, at)
}
