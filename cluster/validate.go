package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// Rules are what a broker allows beyond what the state itself does.
type Rules struct {
	// Node is the broker that places partitions.
	Node core.NodeID
	// PartitionsDefault and ReplicasDefault stand for a count of 0.
	PartitionsDefault uint32
	ReplicasDefault   uint16
}

// PlanCreate checks a request against the state and returns the command that
// carries it out. Everything that is wrong in the settings is reported at once.
func (m *Metadata) PlanCreate(r *proto.CreateTopicRequest, id core.TopicID, rules Rules) (*TopicCreate, *proto.Error) {
	if problem := core.TopicNameProblem(r.Name); problem != "" {
		return nil, proto.CodeInvalidName.Errorf("%s", problem)
	}
	if err := m.topicFree(r.Name); err != nil {
		return nil, err
	}
	partitions := r.Partitions
	if partitions == 0 {
		partitions = rules.PartitionsDefault
	}
	if err := m.partitionsAllowed(r.Name, partitions, 0); err != nil {
		return nil, err
	}
	replicas := r.Replicas
	if replicas == 0 {
		replicas = rules.ReplicasDefault
	}
	if nodes := len(m.nodes); int(replicas) > nodes {
		err := proto.CodeInvalidReplicationFactor.Errorf(
			"topic %s asks for %d replicas of each partition; there are %d brokers and each replica needs its own: allowed is 1 to %d",
			core.Quote(r.Name), replicas, nodes, nodes)
		err.Limit = uint64(nodes)
		return nil, err
	}
	given, faults := gather(r.Configs, nil)
	if err := m.configAllowed(r.Name, given, core.TopicConfig{}, faults); err != nil {
		return nil, err
	}
	return &TopicCreate{
		Topic: id, Name: r.Name, Partitions: partitions, Replicas: replicas, Leader: rules.Node,
		Overrides: settingsOf(given),
	}, nil
}

// PlanGroups is PlanCreate for the topic that keeps the consumer groups. Its log holds the
// records of groups and no data: old segments go as soon as a state stands for them.
func (m *Metadata) PlanGroups(id core.TopicID, rules Rules) (*TopicCreate, *proto.Error) {
	if err := m.topicFree(core.GroupsTopic); err != nil {
		return nil, err
	}
	if err := m.partitionsAllowed(core.GroupsTopic, core.GroupsPartitions, 0); err != nil {
		return nil, err
	}
	return &TopicCreate{
		Topic: id, Name: core.GroupsTopic, Partitions: core.GroupsPartitions, Replicas: rules.ReplicasDefault, Leader: rules.Node,
		Overrides: []Setting{{"durability", "sync"}, {"retention.ms", "unlimited"}, {"segment.bytes", "4MB"}},
	}, nil
}

// PlanDelete is PlanCreate for a deletion.
func (m *Metadata) PlanDelete(r *proto.DeleteTopicRequest) (*TopicDelete, *proto.Error) {
	topic, err := m.topicNamed(r.Name, r.TopicID)
	if err != nil {
		return nil, err
	}
	if err := m.deadLetterFree(topic); err != nil {
		return nil, err
	}
	return &TopicDelete{Topic: topic.ID}, nil
}

// PlanAlter is PlanCreate for a change. It also returns the topic as it is.
func (m *Metadata) PlanAlter(r *proto.AlterTopicRequest, rules Rules) (*TopicAlter, *core.Topic, *proto.Error) {
	topic, err := m.topicNamed(r.Name, r.TopicID)
	if err != nil {
		return nil, nil, err
	}
	if r.Partitions != 0 {
		if int64(r.Partitions) < int64(len(topic.Partitions)) {
			return nil, nil, partitionsFewer(topic, r.Partitions)
		}
		if err := m.partitionsAllowed(topic.Name, r.Partitions, len(topic.Partitions)); err != nil {
			return nil, nil, err
		}
	}
	set, faults := gather(r.Set, r.Unset)
	after := make(map[string]string, len(topic.Overrides)+len(set))
	for key, value := range topic.Overrides {
		after[key] = value
	}
	for _, key := range r.Unset {
		delete(after, key)
	}
	for key, value := range set {
		after[key] = value
	}
	if err := m.configAllowed(topic.Name, after, topic.Config, faults); err != nil {
		return nil, nil, err
	}
	unset := slices.Clone(r.Unset)
	slices.Sort(unset)
	return &TopicAlter{Topic: topic.ID, Set: settingsOf(set), Unset: unset, Partitions: r.Partitions, Leader: rules.Node}, topic, nil
}

// PlanRegister says which command binds the node to its data folder, or nil when
// it is bound already.
func (m *Metadata) PlanRegister(node core.NodeID, incarnation [16]byte) (*NodeRegister, error) {
	for _, n := range m.nodes {
		if n.ID == node && n.Incarnation == incarnation {
			return nil, nil
		}
	}
	if err := m.nodeAllowed(node, incarnation); err != nil {
		return nil, err
	}
	return &NodeRegister{Node: node, Incarnation: incarnation}, nil
}

// nodeAllowed refuses two folders under one id and two ids for one folder.
func (m *Metadata) nodeAllowed(node core.NodeID, incarnation [16]byte) *proto.Error {
	for _, n := range m.nodes {
		if n.ID == node && n.Incarnation != incarnation {
			return proto.CodeInvalidRequest.Errorf(
				"node id %d is registered with data folder %x, this one is %x: start it with its own folder, or add it under a new id",
				node, n.Incarnation, incarnation)
		}
		if n.ID != node && n.Incarnation == incarnation {
			return proto.CodeInvalidRequest.Errorf(
				"this data folder (%x) belongs to node id %d and was started as %d: set broker.node-id back to %d",
				incarnation, n.ID, node, n.ID)
		}
	}
	return nil
}

// topicFree refuses a name that is taken.
func (m *Metadata) topicFree(name string) *proto.Error {
	if topic, taken := m.byName.get(name); taken {
		return proto.CodeTopicExists.Errorf("a topic named %s exists with %d partitions and id %v; nothing was changed",
			core.Quote(name), len(topic.Partitions), topic.ID)
	}
	return nil
}

// topicNamed finds a topic by exactly one of its name and its id.
func (m *Metadata) topicNamed(name string, id core.TopicID) (*core.Topic, *proto.Error) {
	byID := id != core.TopicID{}
	if byID == (name != "") {
		return nil, proto.CodeInvalidRequest.Errorf("a topic is named by its name or by its id: exactly one of the two must be given")
	}
	topic, ok := m.byName.get(name)
	if byID {
		topic, ok = m.byID.get(id)
	}
	if !ok {
		return nil, topicUnknown(name, id)
	}
	if core.TopicReserved(topic.Name) {
		return nil, proto.CodeInvalidName.Errorf("topic %s is the broker's own and cannot be changed", topic.Name)
	}
	return topic, nil
}

func topicUnknown(name string, id core.TopicID) *proto.Error {
	if name != "" {
		return proto.CodeUnknownTopic.Errorf("there is no topic named %s", core.Quote(name))
	}
	return proto.CodeUnknownTopic.Errorf("there is no topic with the id %v", id)
}

// partitionsAllowed checks a topic's new count against the limits of topic and broker.
func (m *Metadata) partitionsAllowed(name string, count uint32, before int) *proto.Error {
	if count < 1 || count > core.PartitionsPerTopicMax {
		err := proto.CodeInvalidPartitionCount.Errorf("topic %s with %d partitions: allowed is 1 to %d",
			core.Quote(name), count, core.PartitionsPerTopicMax)
		err.Limit = core.PartitionsPerTopicMax
		return err
	}
	room := core.PartitionsPerNodeMax - m.partitions
	if added := int(count) - before; added > room {
		err := proto.CodeInvalidPartitionCount.Errorf("topic %s needs %d more partitions; the broker has %d and holds at most %d, so %d are left",
			core.Quote(name), added, m.partitions, core.PartitionsPerNodeMax, room)
		err.Limit = uint64(before + room)
		return err
	}
	return nil
}

func partitionsFewer(topic *core.Topic, count uint32) *proto.Error {
	err := proto.CodeInvalidPartitionCount.Errorf("topic %s has %d partitions and cannot get fewer (%d given): allowed is %d to %d",
		core.Quote(topic.Name), len(topic.Partitions), count, len(topic.Partitions), core.PartitionsPerTopicMax)
	err.Limit = core.PartitionsPerTopicMax
	return err
}

// gather turns settings into a map. A key given twice is a fault.
func gather(set []proto.TopicConfig, unset []string) (map[string]string, core.Faults) {
	given := make(map[string]string, len(set))
	var faults core.Faults
	for _, s := range set {
		if _, twice := given[s.Key]; twice {
			faults = append(faults, core.Fault{Key: s.Key, Value: s.Value, Problem: "the key is given twice; give it once"})
			continue
		}
		given[s.Key] = s.Value
	}
	known := core.TopicKeys()
	seen := make(map[string]bool, len(unset))
	for _, key := range unset {
		_, alsoSet := given[key]
		switch {
		case alsoSet:
			faults = append(faults, core.Fault{Key: key, Problem: "the key is both set and unset; do one of the two"})
		case seen[key]:
			faults = append(faults, core.Fault{Key: key, Problem: "the key is unset twice; give it once"})
		case !slices.ContainsFunc(known, func(k core.TopicKey) bool { return k.Name == key }):
			faults = append(faults, core.Fault{Key: key, Problem: "no such topic key, so it cannot be unset" + didYouMean(key, known)})
		}
		seen[key] = true
	}
	return given, faults
}

func didYouMean(key string, known []core.TopicKey) string {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.Name
	}
	if near := core.Nearest(key, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// configAllowed reports every fault of a topic's settings in one error. before is
// the configuration that the topic has.
func (m *Metadata) configAllowed(name string, given map[string]string, before core.TopicConfig, faults core.Faults) *proto.Error {
	after, more := core.ParseTopicConfig(given, m.options.Defaults)
	if faults = append(faults, more...); len(more) == 0 {
		if fault := m.deadLetterProblem(name, before, after); fault != nil {
			faults = append(faults, *fault)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b core.Fault) int { return cmp.Compare(a.Key, b.Key) })
	return proto.CodeInvalidConfig.Errorf("topic %s: %s", core.Quote(name), faults.Error())
}

func settingsOf(given map[string]string) []Setting {
	if len(given) == 0 {
		return nil
	}
	settings := make([]Setting, 0, len(given))
	for key, value := range given {
		settings = append(settings, Setting{key, value})
	}
	sortSettings(settings)
	return settings
}

// sortSettings puts settings into the order of their keys, so that no order of a
// map reaches a command or a snapshot.
func sortSettings(settings []Setting) {
	slices.SortFunc(settings, func(a, b Setting) int { return cmp.Compare(a.Key, b.Key) })
}
