package netio

import (
	"bytes"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

const (
	// metadataPageTopicsMax and metadataPagePartitionsMax bound one page, whatever is asked for.
	metadataPageTopicsMax     = 1_000
	metadataPagePartitionsMax = 20_000
)

// metadata answers from the View, without asking a shard, unless topics are to be
// created because they were asked for.
func (s *Session) metadata(id uint64, p []byte) {
	m := &proto.MetadataRequest{}
	if err := m.Decode(p); err != nil {
		s.refuse(id, proto.AsError(err))
		return
	}
	if !m.Selection.Valid() {
		s.refuse(id, proto.CodeInvalidRequest.Errorf("selection %d: 0 (all), 1 (names) and 2 (ids) are allowed", uint8(m.Selection)))
		return
	}
	if s.reactor.settings.AutoCreate && m.Selection == proto.TopicSelectionNames && s.autoCreate(id, m) {
		return
	}
	s.metadataPage(id, m)
}

// autoCreate has the topics created that a request names and that do not exist.
// It returns false when there are none. Only names that the page will show are
// looked at: a request may hold a million of them.
func (s *Session) autoCreate(id uint64, m *proto.MetadataRequest) bool {
	missing := &proto.MetadataRequest{Selection: proto.TopicSelectionNames}
	first, ok := parseListCursor(m.Cursor)
	if !ok || first > len(m.Names) {
		return false // the page says so
	}
	names := m.Names[first:]
	for _, name := range names[:min(len(names), pageTopicsMax(m))] {
		if s.reactor.view.TopicByName(name) == nil && core.TopicNameProblem(name) == "" {
			missing.Names = append(missing.Names, name)
		}
	}
	if len(missing.Names) == 0 {
		return false
	}
	m.Cursor = bytes.Clone(m.Cursor) // it lies in the frame, which is gone after this event
	request := mail.Request{
		Kind:      mail.RequestAdmin,
		Version:   s.in.header.Version,
		ID:        id,
		Partition: core.MetadataPartition,
		Wait:      s.reactor.settings.RequestTimeout,
		Received:  s.reactor.now,
		Body:      missing,
	}
	if !s.send(s.reactor.shard(core.MetadataPartition), &request) {
		s.refuse(id, errOverloaded)
		return true
	}
	s.awaitCreation(id, m)
	return true
}

// awaitCreation keeps a request until its topics are there.
func (s *Session) awaitCreation(id uint64, m proto.Message) {
	if s.creating == nil {
		s.creating = make(map[uint64]proto.Message)
	}
	s.creating[id] = m
}

// autoCreated goes on with a request that had topics created, with the View that
// has them. It returns false when the answer belongs to another request.
func (s *Session) autoCreated(a *mail.Answer) bool {
	m := s.creating[a.ID]
	if m == nil {
		return false
	}
	delete(s.creating, a.ID)
	s.reactor.view = s.reactor.views.Load() // published after this event began
	if a.Err != nil {
		s.refuse(a.ID, a.Err)
		return true
	}
	if page, ok := m.(*proto.MetadataRequest); ok {
		s.metadataPage(a.ID, page)
		return true
	}
	name, _ := groupOf(m)
	topic := s.reactor.view.TopicByName(core.GroupsTopic)
	if topic == nil {
		s.refuse(a.ID, errOverloaded) // it is on its way with another request
		return true
	}
	s.sendGroup(a.ID, m, &topic.Partitions[proto.PartitionForKey([]byte(name), uint32(len(topic.Partitions)))])
	return true
}

// pageTopicsMax is how many topics a page may hold.
func pageTopicsMax(m *proto.MetadataRequest) int {
	return int(bounded(m.PageTopicsMax, metadataPageTopicsMax))
}

// metadataPage answers one page.
func (s *Session) metadataPage(id uint64, m *proto.MetadataRequest) {
	view := s.reactor.view
	page := metadataPage{session: s, topicsMax: pageTopicsMax(m)}
	switch m.Selection {
	case proto.TopicSelectionAll:
		last := string(m.Cursor)
		view.TopicsAfter(last, func(t *core.Topic) bool {
			if core.TopicReserved(t.Name) {
				return true // the broker's own are shown to who asks by name
			}
			if page.full(t) {
				page.cursor = []byte(last)
				return false
			}
			page.add(t)
			last = t.Name
			return true
		})
	case proto.TopicSelectionNames:
		page.list(m, len(m.Names), func(i int) {
			if t := view.TopicByName(m.Names[i]); t != nil {
				page.add(t)
			} else {
				page.unknown(proto.MetadataTopic{Name: m.Names[i], Error: *unknownTopicName(m.Names[i])})
			}
		})
	case proto.TopicSelectionIDs:
		page.list(m, len(m.IDs), func(i int) {
			if t := view.TopicByID(core.TopicID(m.IDs[i])); t != nil {
				page.add(t)
			} else {
				page.unknown(proto.MetadataTopic{TopicID: m.IDs[i], Error: *unknownTopicID(core.TopicID(m.IDs[i]))})
			}
		})
	}
	if page.refused != nil {
		s.refuse(id, page.refused)
		return
	}
	s.settle(id)
	s.push(id, &proto.MetadataResponse{
		MetadataEpoch: view.Epoch(),
		ClusterID:     view.ClusterID(),
		Brokers:       s.brokers(),
		Topics:        page.topics,
		Cursor:        page.cursor,
	})
}

// metadataPage gathers topics until the page is full.
type metadataPage struct {
	session    *Session
	topicsMax  int
	topics     []proto.MetadataTopic
	partitions int
	cursor     []byte
	refused    *proto.Error
}

// full says whether another topic does not fit. The first one always does.
func (p *metadataPage) full(t *core.Topic) bool {
	return len(p.topics) > 0 &&
		(len(p.topics) >= p.topicsMax || p.partitions+len(t.Partitions) > metadataPagePartitionsMax)
}

// list answers a request that names its topics. The cursor is the place in the list.
func (p *metadataPage) list(m *proto.MetadataRequest, count int, add func(i int)) {
	first, ok := parseListCursor(m.Cursor)
	if !ok || first > count {
		p.refused = proto.CodeInvalidRequest.Errorf("the cursor is not one that this broker gave out for this list")
		return
	}
	for i := first; i < count; i++ {
		if len(p.topics) >= p.topicsMax || len(p.topics) > 0 && p.partitions >= metadataPagePartitionsMax {
			p.cursor = listCursor(i)
			return
		}
		add(i)
	}
}

func (p *metadataPage) unknown(t proto.MetadataTopic) { p.topics = append(p.topics, t) }

func (p *metadataPage) add(t *core.Topic) {
	topic := proto.MetadataTopic{
		Name:       t.Name,
		TopicID:    t.ID,
		Partitions: make([]proto.MetadataPartition, len(t.Partitions)),
	}
	// The replicas of all partitions share one array.
	replicas := make([]uint32, len(t.Partitions))
	for i := range t.Partitions {
		leader := uint32(t.Partitions[i].Leader)
		replicas[i] = leader
		topic.Partitions[i] = proto.MetadataPartition{
			Leader:      leader,
			LeaderEpoch: int32(t.Partitions[i].LeaderEpoch),
			Replicas:    replicas[i : i+1 : i+1],
		}
	}
	p.topics = append(p.topics, topic)
	p.partitions += len(t.Partitions)
}

// brokers lists the brokers as clients of this listener reach them. Only this
// node's own address is known to it; the others' come with the cluster.
func (s *Session) brokers() []proto.MetadataBroker {
	var list []proto.MetadataBroker
	for _, b := range s.reactor.view.Brokers() {
		if b.ID == s.reactor.settings.NodeID {
			list = append(list, proto.MetadataBroker{
				NodeID: uint32(b.ID),
				Host:   s.listener.AdvertisedHost,
				Port:   uint16(s.listener.AdvertisedPort),
			})
		}
	}
	return list
}

// listCursor and parseListCursor write a place in a list as a cursor.
func listCursor(i int) []byte {
	return []byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}
}

func parseListCursor(b []byte) (int, bool) {
	switch len(b) {
	case 0:
		return 0, true
	case 4:
		return int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3]), true
	}
	return 0, false
}
