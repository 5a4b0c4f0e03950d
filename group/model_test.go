package group

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
)

// catalog is a metadata view for tests.
type catalog struct {
	epoch  uint64
	topics map[string]*core.Topic
	order  []string
}

func (c *catalog) Epoch() uint64                       { return c.epoch }
func (c *catalog) TopicByName(name string) *core.Topic { return c.topics[name] }
func (c *catalog) TopicsAfter(after string, each func(*core.Topic) bool) {
	for _, name := range c.order {
		if t := c.topics[name]; t != nil && name > after && !each(t) {
			return
		}
	}
}

func (c *catalog) set(name string, id byte, partitions int) {
	c.epoch++
	if c.topics == nil {
		c.topics = make(map[string]*core.Topic)
	}
	c.topics[name] = &core.Topic{ID: core.TopicID{id}, Name: name, Partitions: make([]core.TopicPartition, partitions)}
}

// clone is the catalog as it is now.
func (c *catalog) clone() catalog {
	return catalog{epoch: c.epoch, topics: maps.Clone(c.topics), order: c.order}
}

// place is a partition of a topic; a topic that was made again under its name is another one.
type place struct {
	topic     string
	id        core.TopicID
	partition int
}

// client is a member as its process sees it: it acts on the last answer that it got.
type client struct {
	id, instance string
	epoch        int64
	applied      int64
	owns         map[place]int64 // with the owner epoch
}

// world is a group, its clients, and what no run may break.
type world struct {
	t       *rapid.T
	group   *Group
	catalog catalog
	now     int64
	serial  int
	topics  byte
	behind  catalog // the view of a reactor that hears of changes late
	clients []*client
	gone    []*client // removed without knowing it: zombies
	fences  map[place]int64
	owners  map[place]string // who had it under that epoch
}

func (w *world) join(instance string) {
	w.serial++
	c := &client{id: fmt.Sprintf("m%03d", (w.serial*7919)%1000), instance: instance, applied: -1, owns: map[place]int64{}}
	if w.group.Member(c.id) != nil {
		return
	}
	j := &Joining{ID: c.id, Instance: instance, Session: 10 * int64(time.Second), Rebalance: 10 * int64(time.Second)}
	switch rapid.IntRange(0, 3).Draw(w.t, "wants") {
	case 0:
		j.Names = []string{"a"}
	case 1:
		j.Pattern = "[ab]"
	default:
		j.Names = []string{"a", "b", "c"}
	}
	old := w.group.Static(instance)
	m, err := w.group.Join(j, w.view(rapid.Bool().Draw(w.t, "behind")), w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	if old != nil {
		for i, other := range w.clients {
			if other.instance == instance {
				w.clients = append(w.clients[:i], w.clients[i+1:]...)
				w.gone = append(w.gone, other)
				break
			}
		}
	}
	c.epoch = m.Epoch
	w.clients = append(w.clients, c)
	w.apply(c, m)
}

// view is what the reactor of a client has: the newest, or the one that is behind.
func (w *world) view(behind bool) *catalog {
	if behind {
		return &w.behind
	}
	return &w.catalog
}

// apply is what a client does with an answer: it gives up, and takes over at the partition's leader.
func (w *world) apply(c *client, m *Member) {
	may := map[place]int64{}
	for _, t := range w.group.Topics {
		for i, p := range t.Partitions {
			if p.Holder == m && p.Target == m {
				may[place{t.Name, t.ID, i}] = p.Epoch
			}
		}
	}
	for at, epoch := range may {
		if had, ok := c.owns[at]; ok && had == epoch {
			continue
		}
		for _, other := range w.clients { // who is removed or replaced is fenced; who lives has to give up first
			if _, has := other.owns[at]; has && other != c && w.group.Member(other.id) != nil {
				w.t.Fatalf("%s is given %v under epoch %d, and %s has not given it up", c.id, at, epoch, other.id)
			}
		}
		if epoch < w.fences[at] {
			w.t.Fatalf("%s is given %v under epoch %d, and %d has owned it", c.id, at, epoch, w.fences[at])
		}
		if epoch == w.fences[at] && w.owners[at] != c.id { // who was told to give it up may keep it after all
			w.t.Fatalf("%s is given %v under epoch %d, as %s was", c.id, at, epoch, w.owners[at])
		}
		w.fences[at], w.owners[at] = epoch, c.id
	}
	c.owns, c.applied = may, m.Version
}

// beat is one heartbeat; lost says that its answer does not arrive, behind that it comes through a reactor that is.
func (w *world) beat(c *client, lost, behind bool) {
	m := w.group.Member(c.id)
	if m == nil {
		for i, other := range w.clients {
			if other == c {
				w.clients = append(w.clients[:i], w.clients[i+1:]...)
			}
		}
		return
	}
	w.group.Refresh(w.view(behind), w.now)
	w.group.Heartbeat(m, c.applied, w.now)
	if m.Version != c.applied && !lost {
		w.apply(c, m)
	}
}

func (w *world) check() {
	owned := map[place]string{}
	for _, c := range w.clients {
		if w.group.Member(c.id) == nil {
			continue
		}
		for at, epoch := range c.owns {
			if topic := w.catalog.topics[at.topic]; epoch < w.fences[at] || topic == nil || topic.ID != at.id {
				continue // fenced, or the topic is gone
			}
			if other := owned[at]; other != "" {
				w.t.Fatalf("%v is owned by %s and by %s", at, other, c.id)
			}
			owned[at] = c.id
		}
	}
	for _, t := range w.group.Topics {
		for i, p := range t.Partitions {
			for _, m := range []*Member{p.Holder, p.Target} {
				if m != nil && w.group.Member(m.ID) != m {
					w.t.Fatalf("%s/%d is with a member that is gone", t.Name, i)
				}
			}
		}
	}
	b := w.group.AppendRecord(nil)
	if weight := w.group.Weight(); len(b) > weight || weight > w.group.WeightMax {
		w.t.Fatalf("a record of %d bytes weighs %d; allowed are %d", len(b), weight, w.group.WeightMax)
	}
	again, err := ParseRecord(w.group.Name, b, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	if string(again.AppendRecord(nil)) != string(b) {
		w.t.Fatal("the record reads back differently")
	}
}

// converge lets everybody heartbeat until nothing changes, which takes a few rounds whatever
// came before.
func (w *world) converge() {
	w.now += 2 * int64(time.Second)
	for _, m := range w.group.Members {
		if m.Away { // it does not come back
			m.Heard = w.now - m.Session
		} else {
			m.Heard = w.now
		}
	}
	w.group.Expire(1, w.now)
	for range 6 {
		for _, c := range append([]*client(nil), w.clients...) {
			w.beat(c, false, false)
		}
		w.check()
	}
	if !w.group.Settled() {
		w.t.Fatal("six rounds after the last change the group is still moving")
	}
	epoch, last := w.group.Epoch, w.group.Last
	for _, c := range append([]*client(nil), w.clients...) {
		w.beat(c, false, false)
	}
	if w.group.Epoch != epoch || w.group.Last != last {
		w.t.Fatal("a settled group goes on moving")
	}
	for _, t := range w.group.Topics {
		wanted := false
		for _, m := range w.group.Members {
			wanted = wanted || m.wants(t)
		}
		for i, p := range t.Partitions {
			if !wanted && p.Holder == nil && p.Target == nil {
				continue
			}
			if p.Holder == nil {
				w.t.Fatalf("%s/%d is nobody's", t.Name, i)
			}
			found := false
			for _, c := range w.clients {
				_, has := c.owns[place{t.Name, t.ID, i}]
				found = found || has && c.id == p.Holder.ID
			}
			if !found {
				w.t.Fatalf("%s/%d is %s's, who does not know", t.Name, i, p.Holder.ID)
			}
		}
	}
}

// Whatever members and topics do, and whatever answers are lost: a partition never has two
// owners under its newest epoch, epochs rise, and once it is quiet everything is with somebody.
func TestGroupModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, group: New("g", Stream, 5, 1), fences: map[place]int64{}, owners: map[place]string{}}
		w.catalog.order = []string{"a", "b", "c"}
		w.catalog.set("a", 1, 4)
		w.topics, w.behind = 1, w.catalog.clone()
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { w.check() },
			"join": func(t *rapid.T) {
				if len(w.clients) < 8 {
					w.t = t
					w.join(rapid.SampledFrom([]string{"", "", "s1", "s2"}).Draw(t, "instance"))
				}
			},
			"beat": func(t *rapid.T) {
				w.t = t
				if len(w.clients) > 0 {
					w.beat(rapid.SampledFrom(w.clients).Draw(t, "client"), rapid.IntRange(0, 4).Draw(t, "lost") == 0, rapid.Bool().Draw(t, "behind"))
				}
			},
			"leave": func(t *rapid.T) {
				if len(w.clients) == 0 {
					return
				}
				c := rapid.SampledFrom(w.clients).Draw(t, "client")
				if m := w.group.Member(c.id); m != nil {
					w.group.Leave(m, rapid.Bool().Draw(t, "returning"), 1, w.now)
				}
				for i, other := range w.clients {
					if other == c {
						w.clients = append(w.clients[:i], w.clients[i+1:]...)
						break
					}
				}
			},
			"time": func(t *rapid.T) {
				w.now += int64(rapid.IntRange(0, 6).Draw(t, "seconds")) * int64(time.Second)
				w.group.Expire(1, w.now)
			},
			"topics": func(t *rapid.T) {
				name := rapid.SampledFrom(w.catalog.order).Draw(t, "topic")
				switch topic := w.catalog.topics[name]; {
				case topic == nil:
					w.topics++
					w.catalog.set(name, w.topics, rapid.IntRange(1, 6).Draw(t, "partitions"))
				case rapid.IntRange(0, 3).Draw(t, "delete") == 0:
					w.catalog.epoch++
					delete(w.catalog.topics, name)
				default:
					w.catalog.set(name, topic.ID[0], len(topic.Partitions)+1)
				}
			},
			"hear": func(*rapid.T) { w.behind = w.catalog.clone() },
			"crash": func(t *rapid.T) {
				again, err := ParseRecord("g", w.group.AppendRecord(nil), w.now)
				if err != nil {
					t.Fatal(err)
				}
				w.group = again
				w.behind = w.catalog.clone() // a broker that starts serves when every reactor has the newest
			},
			"fence": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "fence") == 0 {
					epoch := w.group.Fence(1)
					for at, owned := range w.fences {
						if epoch <= owned {
							t.Fatalf("the fence %d is not above %d, which has owned %v", epoch, owned, at)
						}
					}
				}
			},
			"converge": func(t *rapid.T) { w.t = t; w.converge() },
		})
		w.t = t
		w.converge()
	})
}
