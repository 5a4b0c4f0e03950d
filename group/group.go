package group

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// Kind says how members share partitions. The numbers are those of the wire.
type Kind uint8

const (
	// Stream: each partition has one owner.
	Stream Kind = 0
	// Queue: members share partitions.
	Queue Kind = 1
)

// Group is one consumer group.
//
// Invariants: members are in the order of their ids; no two have the same instance; a
// partition of a stream group has at most one holder, and a target only if one of the members
// wants its topic; one of a queue group has neither, and is shared by members that want its topic.
// Epochs that were given out are at most Last.
type Group struct {
	Name       string
	Kind       Kind
	Last       int64 // the counter of all epochs
	Epoch      int64 // of the last sharing out
	EmptySince int64 // wall clock, milliseconds; 0 while there are members
	Members    []*Member
	Topics     []*Topic // what members want and there is, in the order of names

	// Dirty: the record has changed since the coordinator stored it.
	Dirty bool

	// WeightMax is what Weight may grow to: the coordinator says what is left.
	WeightMax int
	// SharesMax bounds the places that members of a queue group have in partitions, as long as
	// each partition has one.
	SharesMax int
	// LeftOut is how many topics, or growths of topics, the last look found no room for.
	LeftOut int

	catalogEpoch uint64 // of the view that Topics were taken from; 0 none
	catalogAt    int64  // monotonic, when
	unlooked     bool   // somebody wants what has not been looked for yet
	looked       int    // topics that were held against patterns, in this look
}

// Topic is a topic that the group shares.
type Topic struct {
	ID         core.TopicID
	Name       string
	Partitions []Partition
}

// Partition is one partition's place in the group.
type Partition struct {
	Target *Member // nil: nobody wants it
	Holder *Member // nil: free
	Epoch  int64   // under which the holder has it

	Shared []*Member // of a queue group, in no order; they have it under the epochs of their memberships
}

// Member is one member.
type Member struct {
	ID, Instance, Client, Host string

	Epoch     int64 // of the membership
	Session   int64 // nanoseconds
	Rebalance int64
	Names     []string // of topics, ascending
	Pattern   string
	Version   int64 // of the newest assignment
	Away      bool  // a static member that has left and will come back

	Heard int64 // monotonic, when it was last heard of
	// MoveBy is when it is removed unless it has given up what it was told to; 0 while there is nothing.
	MoveBy int64

	pattern *regexp.Regexp
	load    int // partitions that are meant for it; while sharing out
	marked  int // by sharing.mark; while sharing out
}

// Catalog is what a group looks topics up in: a view of the metadata.
type Catalog interface {
	Epoch() uint64
	TopicByName(name string) *core.Topic
	TopicsAfter(name string, each func(*core.Topic) bool)
}

// New makes a group without members. Its epochs begin above floor.
func New(name string, kind Kind, floor, wallMillis int64) *Group {
	return &Group{Name: name, Kind: kind, Last: floor, Epoch: floor, EmptySince: wallMillis, Dirty: true, WeightMax: core.GroupRecordBytesMax, SharesMax: core.GroupSharesMax}
}

func (g *Group) next() int64 {
	g.Last++
	g.Dirty = true
	return g.Last
}

// Member finds a member by its id.
func (g *Group) Member(id string) *Member {
	if i, ok := g.place(id); ok {
		return g.Members[i]
	}
	return nil
}

func (g *Group) place(id string) (int, bool) {
	return slices.BinarySearchFunc(g.Members, id, func(m *Member, id string) int { return strings.Compare(m.ID, id) })
}

// Static finds the member of an instance.
func (g *Group) Static(instance string) *Member {
	if instance == "" {
		return nil
	}
	for _, m := range g.Members {
		if m.Instance == instance {
			return m
		}
	}
	return nil
}

// Joining is what a member says of itself.
type Joining struct {
	ID, Instance, Client, Host string
	Session, Rebalance         int64
	Names                      []string
	Pattern                    string
}

// Join takes a member in, or what a member wants anew. The pattern has been checked.
func (g *Group) Join(j *Joining, catalog Catalog, now int64) (*Member, error) {
	pattern, err := compile(j.Pattern)
	if err != nil {
		return nil, err
	}
	names := slices.Clone(j.Names)
	slices.Sort(names)
	names = slices.Compact(names)
	m := g.Member(j.ID)
	known := m
	if known == nil {
		known = g.Static(j.Instance)
	}
	more := joiningWeight(j, names)
	if known != nil {
		more -= known.weight()
	}
	if known == nil && len(g.Members) >= core.GroupMembersMax {
		return nil, ErrFull
	}
	if known == nil {
		more += g.sharesWeight(len(g.Members)+1, g.partitions()) - g.sharesWeight(len(g.Members), g.partitions())
	}
	if weight := g.Weight(); more > 0 && weight+more > g.WeightMax {
		return nil, &RoomError{Weight: weight, More: more, Max: g.WeightMax}
	}
	if m == nil {
		m = g.Static(j.Instance)
		switch {
		case m != nil:
			g.take(m, j)
		default:
			m = &Member{ID: j.ID, Instance: j.Instance, Epoch: g.next()}
			m.Version = m.Epoch
			i, _ := g.place(j.ID)
			g.Members = slices.Insert(g.Members, i, m)
			g.EmptySince = 0
		}
	}
	m.Heard, m.Away = now, false
	if m.Session != j.Session || m.Rebalance != j.Rebalance || m.Client != j.Client || m.Host != j.Host {
		g.Dirty = true
	}
	m.Session, m.Rebalance, m.Client, m.Host = j.Session, j.Rebalance, j.Client, j.Host
	wanted := m.pattern == nil && m.Pattern == "" && m.Names == nil || m.Pattern != j.Pattern || !slices.Equal(m.Names, names)
	m.Names, m.Pattern, m.pattern = names, j.Pattern, pattern
	if wanted {
		g.Dirty = true
		g.unlooked = true
		if catalog.Epoch() >= g.catalogEpoch { // else the topics that are known have to do until a newer view comes
			g.look(catalog, now)
		}
		g.share(now)
	} else {
		g.Refresh(catalog, now)
	}
	return m, nil
}

// ErrFull reports a group with as many members as there may be.
var ErrFull = fmt.Errorf("the group has %d members, which is as many as there may be", core.GroupMembersMax)

func compile(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %v", core.Quote(pattern), err)
	}
	return re, nil
}

// take gives a static member's place to a new process. What it has stays with it, under new
// epochs: the old process may still run.
func (g *Group) take(m *Member, j *Joining) {
	i, _ := g.place(m.ID)
	g.Members = slices.Delete(g.Members, i, i+1)
	m.ID = j.ID
	i, _ = g.place(m.ID)
	g.Members = slices.Insert(g.Members, i, m)
	m.Epoch = g.next()
	m.Version = m.Epoch
	g.each(func(_ *Topic, p *Partition) {
		if p.Holder == m && p.Target == m {
			p.Epoch = m.Epoch
		} else if p.Holder == m { // the new process has nothing to give up
			p.Holder = nil
		}
	})
	m.MoveBy = 0
	g.give()
}

// Leave ends a membership. A returning static member keeps its place until its session is over.
func (g *Group) Leave(m *Member, returning bool, wallMillis, now int64) {
	if returning && m.Instance != "" {
		m.Heard = now
		if !m.Away {
			m.Away, g.Dirty = true, true
		}
		return
	}
	g.remove(m, wallMillis)
	g.share(now)
}

func (g *Group) remove(m *Member, wallMillis int64) {
	i, ok := g.place(m.ID)
	core.Assert(ok && g.Members[i] == m, "a member is in its group")
	g.Members = slices.Delete(g.Members, i, i+1)
	g.Dirty = true
	g.each(func(_ *Topic, p *Partition) {
		if p.Holder == m {
			p.Holder = nil
		}
		if p.Target == m {
			p.Target = nil
		}
		if i := slices.Index(p.Shared, m); i >= 0 {
			p.Shared = slices.Delete(p.Shared, i, i+1)
		}
	})
	if len(g.Members) == 0 {
		g.EmptySince = max(1, wallMillis)
		g.Topics, g.catalogEpoch, g.unlooked = nil, 0, false
	}
}

// Fence removes every member and returns an epoch above all that were given out.
func (g *Group) Fence(wallMillis int64) int64 {
	for len(g.Members) > 0 {
		g.remove(g.Members[len(g.Members)-1], wallMillis)
	}
	g.EmptySince = max(1, wallMillis)
	g.Epoch = g.next()
	return g.Epoch
}

// Heartbeat takes note that a member lives and has applied a version of its assignment.
func (g *Group) Heartbeat(m *Member, applied, now int64) {
	m.Heard = now
	if m.Away {
		m.Away, g.Dirty = false, true
	}
	if applied != m.Version || m.MoveBy == 0 {
		return
	}
	m.MoveBy = 0
	g.each(func(_ *Topic, p *Partition) {
		if p.Holder == m && p.Target != m {
			p.Holder, g.Dirty = nil, true
		}
	})
	g.give()
}

// Expire removes the members that were silent for too long, or have not given up what they
// were told to. It returns them.
func (g *Group) Expire(wallMillis, now int64) []*Member {
	var gone []*Member
	for _, m := range g.Members {
		if now-m.Heard >= m.Session || m.MoveBy != 0 && now >= m.MoveBy {
			gone = append(gone, m)
		}
	}
	for _, m := range gone {
		g.remove(m, wallMillis)
	}
	if len(gone) > 0 {
		g.share(now)
	}
	return gone
}

// Deadline is when Expire may have something to do; false when it never has.
func (g *Group) Deadline() (at int64, ok bool) {
	for _, m := range g.Members {
		by := m.Heard + m.Session
		if m.MoveBy != 0 {
			by = min(by, m.MoveBy)
		}
		if !ok || by < at {
			at, ok = by, true
		}
	}
	return at, ok
}

// Postpone gives every member its time once more: it was the coordinator that slept.
func (g *Group) Postpone(now int64) {
	for _, m := range g.Members {
		m.Heard = now
		if m.MoveBy != 0 {
			m.MoveBy = now + m.Rebalance
		}
	}
}

// Settled says whether every partition is where it is meant to be.
func (g *Group) Settled() bool {
	settled := true
	g.each(func(_ *Topic, p *Partition) { settled = settled && p.Holder == p.Target })
	return settled
}

// Leaving says whether a member has been told to give something up and has not.
func (g *Group) leaving(m *Member) bool {
	found := false
	g.each(func(_ *Topic, p *Partition) { found = found || p.Holder == m && p.Target != m })
	return found
}

func (g *Group) each(visit func(*Topic, *Partition)) {
	for _, t := range g.Topics {
		for i := range t.Partitions {
			visit(t, &t.Partitions[i])
		}
	}
}

// give lets free partitions go to the members that they are meant for.
func (g *Group) give() {
	var given map[*Member]bool
	epoch := int64(0)
	g.each(func(_ *Topic, p *Partition) {
		if p.Holder != nil || p.Target == nil {
			return
		}
		if given == nil {
			given, epoch = make(map[*Member]bool), g.next()
		}
		p.Holder, p.Epoch = p.Target, epoch
		given[p.Target] = true
	})
	for m := range given { // the same number for all: no order shows
		m.Version = epoch
	}
}
