package group

import "fmt"

// The most bytes that the parts of a record take beside their texts: each number as if it
// were the greatest of its kind. So a record only outgrows its weight's bound when a member
// or a topic is added, which is refused, and never because epochs rise or partitions move.
const (
	headWeight      = 2 + 3*10 + 2*3
	textWeight      = 3 // the length before a text
	memberWeight    = 5*textWeight + 4*10 + 1 + 3
	topicHeadWeight = 16 + textWeight + 3
	shareWeight     = 2
	partitionWeight = 2*2 + 6 // an epoch of 6 bytes: a thousand changes each second for a century
)

// Weight is what the record takes at most, however the partitions are shared.
func (g *Group) Weight() int {
	weight := g.membersWeight()
	for _, t := range g.Topics {
		weight += topicWeight(t.Name, len(t.Partitions))
	}
	return weight + g.sharesWeight(len(g.Members), g.partitions())
}

// sharesWeight is what the places of a queue group's members take: nothing while all share all.
func (g *Group) sharesWeight(members, partitions int) int {
	if g.Kind != Queue || members*partitions <= g.SharesMax {
		return 0
	}
	return max(g.SharesMax, partitions) * shareWeight
}

func (g *Group) membersWeight() int {
	weight := headWeight
	for _, m := range g.Members {
		weight += m.weight()
	}
	return weight
}

func (m *Member) weight() int {
	return memberWeight + len(m.ID) + len(m.Instance) + len(m.Client) + len(m.Host) + len(m.Pattern) + namesWeight(m.Names)
}

func joiningWeight(j *Joining, names []string) int {
	return memberWeight + len(j.ID) + len(j.Instance) + len(j.Client) + len(j.Host) + len(j.Pattern) + namesWeight(names)
}

func namesWeight(names []string) int {
	weight := 0
	for _, name := range names {
		weight += textWeight + len(name)
	}
	return weight
}

func topicWeight(name string, partitions int) int {
	return topicHeadWeight + len(name) + partitions*partitionWeight
}

// RoomError reports a member that there is no room for.
type RoomError struct {
	Weight, More, Max int // of the group, of the member, and what is allowed together; bytes
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("its record takes up to %d bytes, the member %d more, and %d are allowed: name fewer topics or use a pattern, and delete groups that are done", e.Weight, e.More, e.Max)
}
