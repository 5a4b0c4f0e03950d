package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

var (
	testDefaults = core.TopicConfig{
		Durability: core.DurabilitySync, SegmentBytes: core.GiB, MessageBytesMax: core.MiB,
		RetentionBytes: core.SizeUnlimited,
	}
	testRules = Rules{Node: 1, PartitionsDefault: 3, ReplicasDefault: 1}
)

func newTestMetadata(t interface{ Fatal(...any) }) *Metadata {
	m := NewMetadata(Options{ClusterID: "c", Defaults: testDefaults})
	if _, err := m.Apply(&NodeRegister{Node: 1, Incarnation: [16]byte{1}}); err != nil {
		t.Fatal(err)
	}
	return m
}

func topicID(n byte) core.TopicID { return core.TopicID{15: n} }

func create(t *testing.T, m *Metadata, name string, id core.TopicID, partitions uint32, settings ...proto.TopicConfig) Change {
	t.Helper()
	c, err := m.PlanCreate(&proto.CreateTopicRequest{Name: name, Partitions: partitions, Configs: settings}, id, testRules)
	if err != nil {
		t.Fatal(err)
	}
	change, err := m.Apply(c)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

func TestTopicLife(t *testing.T) {
	m := newTestMetadata(t)
	change := create(t, m, "orders", topicID(1), 3, proto.TopicConfig{Key: "durability", Value: "batch"})
	if got := change.Topic; got.Partitions[0].ID != core.PartitionIDFirst || len(got.Partitions) != 3 ||
		got.Config.Durability != core.DurabilityBatch || got.Config.SegmentBytes != core.GiB {
		t.Fatalf("created %+v", got)
	}
	before := m.View()

	create(t, m, "other", topicID(2), 1)
	alter, _, err := m.PlanAlter(&proto.AlterTopicRequest{Name: "orders", Partitions: 5, Unset: []string{"durability"},
		Set: []proto.TopicConfig{{Key: "retention.ms", Value: "1h"}}}, testRules)
	if err != nil {
		t.Fatal(err)
	}
	change, err = m.Apply(alter)
	if err != nil || change.PartitionsBefore != 3 || !change.Configured || len(change.Topic.Partitions) != 5 {
		t.Fatalf("altered %+v, %v", change, err)
	}
	// "other" took the id in between: the new partitions come after it.
	if id := change.Topic.Partitions[3].ID; id != core.PartitionIDFirst+4 {
		t.Errorf("partition 3 has id %d", id)
	}
	if change.Topic.Config.Durability != core.DurabilitySync {
		t.Errorf("durability %v after unset", change.Topic.Config.Durability)
	}
	if topic, number, state := m.Partition(core.PartitionIDFirst + 5); state != PartitionLive || number != 4 || topic != change.Topic {
		t.Errorf("Partition = %v, %d, %v", topic, number, state)
	}
	// The view from before stays what it was.
	if topic := before.TopicByName("orders"); len(topic.Partitions) != 3 || before.Topics() != 1 || before.TopicByName("other") != nil {
		t.Errorf("the old view changed: %+v", topic)
	}

	remove, err := m.PlanDelete(&proto.DeleteTopicRequest{Name: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	if change, err = m.Apply(remove); err != nil || !change.Deleted || change.Topic.Name != "orders" {
		t.Fatalf("deleted %+v, %v", change, err)
	}
	for id, want := range map[core.PartitionID]PartitionState{
		core.MetadataPartition:    PartitionLive,
		core.PartitionIDFirst - 1: PartitionUnknown,
		core.PartitionIDFirst:     PartitionDeleted,
		core.PartitionIDFirst + 3: PartitionLive, // other
		core.PartitionIDFirst + 5: PartitionDeleted,
		core.PartitionIDFirst + 6: PartitionUnknown,
	} {
		if _, _, state := m.Partition(id); state != want {
			t.Errorf("partition %d: state %d, want %d", id, state, want)
		}
	}
	// A namesake is another topic, and its ids are new.
	if change = create(t, m, "orders", topicID(3), 1); change.Topic.Partitions[0].ID != core.PartitionIDFirst+6 {
		t.Errorf("a partition id was used again: %d", change.Topic.Partitions[0].ID)
	}
}

// Two commands planned from one state: the second is refused when it is applied.
func TestApplyRefusesWhatNoLongerHolds(t *testing.T) {
	m := newTestMetadata(t)
	first, _ := m.PlanCreate(&proto.CreateTopicRequest{Name: "t"}, topicID(1), testRules)
	second, _ := m.PlanCreate(&proto.CreateTopicRequest{Name: "t"}, topicID(2), testRules)
	if _, err := m.Apply(first); err != nil {
		t.Fatal(err)
	}
	snapshot := m.AppendSnapshot(nil)
	if _, err := m.Apply(second); !errors.Is(err, proto.ErrTopicExists) {
		t.Fatalf("err %v", err)
	}
	if epoch := m.epoch; epoch != 3 {
		t.Errorf("epoch %d", epoch)
	}
	m.epoch--
	if !bytes.Equal(snapshot, m.AppendSnapshot(nil)) {
		t.Error("a refused command changed the state")
	}
	for _, c := range []Command{&TopicDelete{topicID(9)}, &TopicAlter{Topic: topicID(9)}} {
		if _, err := m.Apply(c); !errors.Is(err, proto.ErrUnknownTopic) {
			t.Errorf("%T: %v", c, err)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	m := newTestMetadata(t)
	create(t, m, "taken", topicID(1), 3)
	settings := func(pairs ...string) (s []proto.TopicConfig) {
		for i := 0; i < len(pairs); i += 2 {
			s = append(s, proto.TopicConfig{Key: pairs[i], Value: pairs[i+1]})
		}
		return s
	}
	for _, c := range []struct {
		name string
		r    proto.CreateTopicRequest
		code proto.Code
		says []string
	}{
		{"slash", proto.CreateTopicRequest{Name: "a/b"}, proto.CodeInvalidName, []string{`"a/b"`, "allowed"}},
		{"empty", proto.CreateTopicRequest{}, proto.CodeInvalidName, []string{"empty"}},
		{"reserved", proto.CreateTopicRequest{Name: "__x"}, proto.CodeInvalidName, []string{"reserved"}},
		{"taken", proto.CreateTopicRequest{Name: "taken"}, proto.CodeTopicExists, []string{`"taken"`, "3 partitions"}},
		{"many partitions", proto.CreateTopicRequest{Name: "t", Partitions: 10_001}, proto.CodeInvalidPartitionCount, []string{"10001", "10000"}},
		{"replicas", proto.CreateTopicRequest{Name: "t", Replicas: 2}, proto.CodeInvalidReplicationFactor, []string{"2 replicas", "1 brokers", "1 to 1"}},
		{"settings", proto.CreateTopicRequest{Name: "t", Configs: settings("durabilty", "sync", "flush.ms", "soon", "durability", "always")},
			proto.CodeInvalidConfig, []string{`did you mean "durability"`, `"soon"`, `"always"`}},
		{"twice", proto.CreateTopicRequest{Name: "t", Configs: settings("flush.ms", "5ms", "flush.ms", "6ms")}, proto.CodeInvalidConfig, []string{"twice"}},
	} {
		_, err := m.PlanCreate(&c.r, topicID(2), testRules)
		if err == nil || err.Code != c.code {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Text, word) {
				t.Errorf("%s: %q does not say %q", c.name, err.Text, word)
			}
		}
	}
	for _, c := range []struct {
		name string
		r    proto.AlterTopicRequest
		code proto.Code
	}{
		{"unknown", proto.AlterTopicRequest{Name: "no"}, proto.CodeUnknownTopic},
		{"neither", proto.AlterTopicRequest{}, proto.CodeInvalidRequest},
		{"both", proto.AlterTopicRequest{Name: "taken", TopicID: topicID(1)}, proto.CodeInvalidRequest},
		{"fewer", proto.AlterTopicRequest{Name: "taken", Partitions: 2}, proto.CodeInvalidPartitionCount},
		{"more than allowed", proto.AlterTopicRequest{Name: "taken", Partitions: 10_001}, proto.CodeInvalidPartitionCount},
		{"set and unset", proto.AlterTopicRequest{Name: "taken", Set: settings("flush.ms", "5ms"), Unset: []string{"flush.ms"}}, proto.CodeInvalidConfig},
		{"unset unknown", proto.AlterTopicRequest{Name: "taken", Unset: []string{"flush.mss"}}, proto.CodeInvalidConfig},
	} {
		if _, _, err := m.PlanAlter(&c.r, testRules); err == nil || err.Code != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := m.PlanDelete(&proto.DeleteTopicRequest{TopicID: topicID(7)}); err == nil || err.Code != proto.CodeUnknownTopic {
		t.Errorf("delete: %v", err)
	}
}

func TestPartitionsPerNodeAreBounded(t *testing.T) {
	m := newTestMetadata(t)
	for i := range core.PartitionsPerNodeMax / core.PartitionsPerTopicMax {
		create(t, m, fmt.Sprint("t", i), topicID(byte(i+1)), core.PartitionsPerTopicMax)
	}
	_, err := m.PlanCreate(&proto.CreateTopicRequest{Name: "more", Partitions: 1}, topicID(200), testRules)
	if err == nil || err.Code != proto.CodeInvalidPartitionCount || !strings.Contains(err.Text, "0 are left") {
		t.Fatalf("err %v", err)
	}
	// Two that were planned while there was room for one of them.
	m = newTestMetadata(t)
	for i := range core.PartitionsPerNodeMax/core.PartitionsPerTopicMax - 1 {
		create(t, m, fmt.Sprint("t", i), topicID(byte(i+1)), core.PartitionsPerTopicMax)
	}
	var planned []Command
	for i := range 2 {
		c, err := m.PlanCreate(&proto.CreateTopicRequest{Name: fmt.Sprint("late", i), Partitions: core.PartitionsPerTopicMax}, topicID(byte(100+i)), testRules)
		if err != nil {
			t.Fatal(err)
		}
		planned = append(planned, c)
	}
	alter, _, err := m.PlanAlter(&proto.AlterTopicRequest{Name: "t0", Partitions: core.PartitionsPerTopicMax}, testRules)
	if _, err := m.Apply(planned[0]); err != nil {
		t.Fatal(err)
	}
	if _, late := m.Apply(planned[1]); late == nil || late.Code != proto.CodeInvalidPartitionCount || m.partitions != core.PartitionsPerNodeMax {
		t.Fatalf("one topic too many: %v, %d partitions", late, m.partitions)
	}
	if err == nil && alter != nil {
		if _, late := m.Apply(alter); late != nil {
			t.Fatalf("a change that adds nothing: %v", late)
		}
	}
	if m.ranges.size != core.PartitionsPerNodeMax/core.PartitionsPerTopicMax {
		t.Errorf("%d ranges", m.ranges.size)
	}
}

func TestNodeRegistration(t *testing.T) {
	m := newTestMetadata(t)
	if c, err := m.PlanRegister(1, [16]byte{1}); c != nil || err != nil {
		t.Errorf("again: %v, %v", c, err)
	}
	if _, err := m.PlanRegister(1, [16]byte{2}); err == nil {
		t.Error("a wiped disk under an old id was accepted")
	}
	if _, err := m.PlanRegister(2, [16]byte{1}); err == nil || !strings.Contains(err.Error(), "set broker.node-id back to 1") {
		t.Errorf("another id for the folder: %v", err)
	}
	c, err := m.PlanRegister(2, [16]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Apply(c); err != nil || len(m.Nodes()) != 2 || len(m.View().Brokers()) != 2 {
		t.Errorf("registered %v, %v", m.Nodes(), err)
	}
}

func TestProducerBlocksNeverOverlap(t *testing.T) {
	m := newTestMetadata(t)
	a, _ := m.Apply(&ProducerReserve{Node: 1, Count: 1000})
	b, _ := m.Apply(&ProducerReserve{Node: 1, Count: 10})
	if a.ProducerFirst != 0 || b.ProducerFirst != 1000 || m.producerNext != 1010 {
		t.Errorf("blocks %+v and %+v", a, b)
	}
}

// A setting that the broker's defaults no longer allow must not take the others with it.
func TestStoredSettingsSurviveChangedDefaults(t *testing.T) {
	m := newTestMetadata(t)
	if _, err := m.Apply(&TopicCreate{Topic: topicID(1), Name: "t", Partitions: 1, Replicas: 1, Overrides: []Setting{
		{"durability", "batch"}, {"gone.key", "1"}}}); err != nil {
		t.Fatal(err)
	}
	if got := m.View().TopicByName("t").Config.Durability; got != core.DurabilityBatch {
		t.Errorf("durability %v", got)
	}
	if faults := m.Faults(); len(faults) != 1 || faults[0].Key != "gone.key" || faults[0].Source != "topic t" {
		t.Errorf("faults %v", faults)
	}
}

func TestViewPages(t *testing.T) {
	m := newTestMetadata(t)
	for i, name := range []string{"b", "a", "d", "c"} {
		create(t, m, name, topicID(byte(i+1)), 1)
	}
	var names []string
	m.View().TopicsAfter("a", func(topic *core.Topic) bool { names = append(names, topic.Name); return len(names) < 2 })
	if !slices.Equal(names, []string{"b", "c"}) {
		t.Errorf("after a: %v", names)
	}
	names = nil
	m.View().TopicsAfter("", func(topic *core.Topic) bool { names = append(names, topic.Name); return true })
	if !slices.Equal(names, []string{"a", "b", "c", "d"}) {
		t.Errorf("all: %v", names)
	}
}

// A change must copy little, however many topics there are.
func TestChangeCopiesLittle(t *testing.T) {
	m := newTestMetadata(t)
	for i := range 5_000 {
		if _, err := m.Apply(&TopicCreate{Topic: core.TopicID{0: byte(i), 1: byte(i >> 8)}, Name: fmt.Sprint("topic-", i), Partitions: 1, Replicas: 1}); err != nil {
			t.Fatal(err)
		}
	}
	big := create(t, m, "big", topicID(255), core.PartitionsPerTopicMax).Topic
	i := 0
	allocations := testing.AllocsPerRun(100, func() {
		i++
		m.Apply(&TopicAlter{Topic: big.ID, Set: []Setting{{"flush.ms", fmt.Sprint(i, "ms")}}})
		m.View()
	})
	if allocations > 100 { // two paths of about 13 branches, a topic, a map, a view
		t.Errorf("%v allocations per change", allocations)
	}
	if now := m.View().TopicByName("big"); &now.Partitions[0] != &big.Partitions[0] {
		t.Error("a change of settings copied 10,000 partitions")
	}
}

// drawCommand makes commands that hit, and commands that miss.
func drawCommand(t *rapid.T) Command {
	id := rapid.Custom(func(t *rapid.T) core.TopicID { return topicID(rapid.ByteRange(1, 6).Draw(t, "id")) })
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	setting := rapid.Custom(func(t *rapid.T) Setting {
		return Setting{rapid.SampledFrom([]string{"durability", "gone.key", "flush.ms", "dead.letter.topic", "cleanup.policy"}).Draw(t, "key"), rapid.SampledFrom([]string{"sync", "none", "7ms", "a", "b", "c", "compact"}).Draw(t, "value")}
	})
	settings := rapid.SliceOfNDistinct(setting, 0, 3, func(s Setting) string { return s.Key })
	leader := core.NodeID(rapid.Uint32Range(1, 2).Draw(t, "leader"))
	switch rapid.IntRange(1, 6).Draw(t, "kind") {
	case kindTopicCreate:
		return &TopicCreate{id.Draw(t, "topic"), name.Draw(t, "name"), rapid.Uint32Range(1, 5).Draw(t, "partitions"), 1, leader, settings.Draw(t, "settings")}
	case kindTopicDelete:
		return &TopicDelete{id.Draw(t, "topic")}
	case kindTopicAlter:
		return &TopicAlter{id.Draw(t, "topic"), settings.Draw(t, "set"), rapid.SliceOfN(rapid.SampledFrom([]string{"durability", "flush.ms", "dead.letter.topic"}), 0, 2).Draw(t, "unset"),
			rapid.Uint32Range(0, 9).Draw(t, "partitions"), leader}
	case kindProducerReserve:
		return &ProducerReserve{1, rapid.Uint32Range(1, 1000).Draw(t, "count")}
	case kindNodeRegister:
		return &NodeRegister{core.NodeID(rapid.Uint32Range(1, 4).Draw(t, "node")), [16]byte{rapid.ByteRange(1, 4).Draw(t, "incarnation")}}
	}
	return &FeatureFinalize{rapid.Uint16Range(0, 5).Draw(t, "level")}
}

// State after a snapshot and the commands behind it is the state after all
// commands; the commands go through their encoding.
func TestSnapshotAndReplayEqualReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		straight, restored := newTestMetadata(t), newTestMetadata(t)
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			c, err := ParseCommand(AppendCommand(nil, drawCommand(t)))
			if err != nil {
				t.Fatal(err)
			}
			_, refusedStraight := straight.Apply(c)
			_, refusedRestored := restored.Apply(c)
			if (refusedStraight == nil) != (refusedRestored == nil) {
				t.Fatalf("%T refused: %v and %v", c, refusedStraight, refusedRestored)
			}
			if rapid.IntRange(0, 4).Draw(t, "snapshot") == 0 {
				fresh := NewMetadata(restored.options)
				if err := fresh.Restore(restored.AppendSnapshot(nil)); err != nil {
					t.Fatal(err)
				}
				restored = fresh
			}
			if !bytes.Equal(straight.AppendSnapshot(nil), restored.AppendSnapshot(nil)) {
				t.Fatalf("states differ after %T", c)
			}
			for id := core.PartitionIDFirst - 1; id <= straight.partitionNext; id++ {
				topic, number, state := straight.Partition(id)
				other, otherNumber, otherState := restored.Partition(id)
				if number != otherNumber || state != otherState || (topic == nil) != (other == nil) {
					t.Fatalf("partition %d: %d %d and %d %d", id, number, state, otherNumber, otherState)
				}
				if topic != nil && (topic.Partitions[number].ID != id || topic.Config != other.Config || topic.Name != other.Name) {
					t.Fatalf("partition %d belongs to %+v and %+v", id, topic, other)
				}
			}
		}
	})
}

func TestCommandOfANewerBuildStops(t *testing.T) {
	good := AppendCommand(nil, &TopicDelete{topicID(1)})
	newer, kind := slices.Clone(good), slices.Clone(good)
	newer[0], kind[1] = commandVersion+1, 99
	for _, b := range [][]byte{newer, kind} {
		if _, err := ParseCommand(b); !errors.Is(err, ErrCommandUnknown) {
			t.Errorf("%v: %v", b[:2], err)
		}
	}
	for n := range len(good) {
		if _, err := ParseCommand(good[:n]); !errors.Is(err, ErrCommandMalformed) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, err := ParseCommand(append(good, 0)); !errors.Is(err, ErrCommandMalformed) {
		t.Errorf("longer: %v", err)
	}
}

func FuzzParseCommand(f *testing.F) {
	f.Add(AppendCommand(nil, &TopicCreate{topicID(1), "name", 3, 1, 1, []Setting{{"k", "v"}}}))
	f.Add(AppendCommand(nil, &TopicAlter{topicID(1), []Setting{{"k", "v"}}, []string{"u"}, 4, 1}))
	f.Add(AppendCommand(nil, &NodeRegister{1, [16]byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCommand(b)
		if err == nil && !bytes.Equal(AppendCommand(nil, c), b) {
			t.Fatalf("%T encodes differently", c)
		}
	})
}

func FuzzRestore(f *testing.F) {
	m := newTestMetadata(f)
	m.Apply(&TopicCreate{topicID(1), "name", 3, 1, 1, []Setting{{"flush.ms", "5ms"}}})
	f.Add(m.AppendSnapshot(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newTestMetadata(t)
		before := m.AppendSnapshot(nil)
		if err := m.Restore(b); err != nil && !bytes.Equal(before, m.AppendSnapshot(nil)) {
			t.Fatal("a refused snapshot changed the state")
		}
	})
}
