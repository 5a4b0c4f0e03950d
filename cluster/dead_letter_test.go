package cluster

import (
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

func deadLetter(topic string) proto.TopicConfig {
	return proto.TopicConfig{Key: "dead.letter.topic", Value: topic}
}

var compacted = proto.TopicConfig{Key: "cleanup.policy", Value: "compact"}

func alter(m *Metadata, name string, unset []string, set ...proto.TopicConfig) *proto.Error {
	c, _, err := m.PlanAlter(&proto.AlterTopicRequest{Name: name, Set: set, Unset: unset}, testRules)
	if err != nil {
		return err
	}
	_, err = m.Apply(c)
	return err
}

func remove(m *Metadata, name string) *proto.Error {
	c, err := m.PlanDelete(&proto.DeleteTopicRequest{Name: name})
	if err != nil {
		return err
	}
	_, err = m.Apply(c)
	return err
}

func refused(t *testing.T, what string, err *proto.Error, code proto.Code, says ...string) {
	t.Helper()
	if err == nil || err.Code != code {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, word := range says {
		if !strings.Contains(err.Text, word) {
			t.Errorf("%s: %q does not say %q", what, err.Text, word)
		}
	}
}

func TestDeadLetterTopicMustBeThere(t *testing.T) {
	m := newTestMetadata(t)
	create(t, m, "compacted", topicID(1), 1, compacted)
	for what, c := range map[string]struct {
		target string
		says   []string
	}{
		"missing":   {"orders.dead", []string{`"dead.letter.topic" = "orders.dead"`, "no such topic", "pulsectl topic create orders.dead"}},
		"itself":    {"orders", []string{"its own dead-letter topic"}},
		"compacted": {"compacted", []string{"compacted", "cleanup.policy=delete"}},
		"no name":   {"a/b", []string{"allowed are"}},
		"broker's":  {core.GroupsTopic, []string{"reserved"}},
	} {
		_, err := m.PlanCreate(&proto.CreateTopicRequest{Name: "orders", Configs: []proto.TopicConfig{deadLetter(c.target)}}, topicID(9), testRules)
		refused(t, what, err, proto.CodeInvalidConfig, c.says...)
	}
	create(t, m, "orders", topicID(2), 1)
	refused(t, "missing, altered", alter(m, "orders", nil, deadLetter("orders.dead")), proto.CodeInvalidConfig, "no such topic")
	refused(t, "itself, altered", alter(m, "orders", nil, deadLetter("orders")), proto.CodeInvalidConfig, "its own")
	create(t, m, "orders.dead", topicID(3), 1)
	if err := alter(m, "orders", nil, deadLetter("orders.dead")); err != nil {
		t.Fatal(err)
	}
	if got := m.View().TopicByName("orders").Config.Queue.DeadLetterTopic; got != "orders.dead" {
		t.Errorf("dead-letter topic %q", got)
	}
	refused(t, "made compact", alter(m, "orders.dead", nil, compacted), proto.CodeInvalidConfig, `"cleanup.policy"`, `"orders"`)
	if err := alter(m, "orders", nil, deadLetter("")); err != nil { // empty is none
		t.Fatal(err)
	}
	if err := alter(m, "orders.dead", nil, compacted); err != nil {
		t.Error(err)
	}
}

func TestDeadLettersDoNotGoInCircles(t *testing.T) {
	m := newTestMetadata(t)
	create(t, m, "c", topicID(3), 1)
	create(t, m, "b", topicID(2), 1, deadLetter("c"))
	create(t, m, "a", topicID(1), 1, deadLetter("b"))
	refused(t, "circle", alter(m, "c", nil, deadLetter("a")), proto.CodeInvalidConfig, "come back to c", "by way of b")
	if err := alter(m, "a", nil, proto.TopicConfig{Key: "flush.ms", Value: "7ms"}); err != nil {
		t.Error(err)
	}
	name := "a"
	for i := range deadLetterPathMax - 3 {
		next := "p" + string(rune('0'+i))
		create(t, m, next, topicID(byte(10+i)), 1, deadLetter(name))
		name = next
	}
	create(t, m, "first", topicID(30), 1, deadLetter(name))
	_, err := m.PlanCreate(&proto.CreateTopicRequest{Name: "long", Configs: []proto.TopicConfig{deadLetter("first")}}, topicID(31), testRules)
	refused(t, "long path", err, proto.CodeInvalidConfig, "more than 8")
}

// Records may be on their way to it: it stays while a topic names it.
func TestDeadLetterTopicIsNotDeletedWhileItIsNamed(t *testing.T) {
	m := newTestMetadata(t)
	create(t, m, "dead", topicID(1), 1)
	create(t, m, "a", topicID(2), 1, deadLetter("dead"))
	create(t, m, "b", topicID(3), 1, deadLetter("dead"))
	restored := NewMetadata(m.options)
	if err := restored.Restore(m.AppendSnapshot(nil)); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Metadata{m, restored} {
		refused(t, "named twice", remove(m, "dead"), proto.CodeInvalidRequest, `"a" and 1 more`, "--unset dead.letter.topic")
		if err := alter(m, "a", []string{"dead.letter.topic"}); err != nil {
			t.Fatal(err)
		}
		refused(t, "named once", remove(m, "dead"), proto.CodeInvalidRequest, `of "b":`)
		if err := remove(m, "b"); err != nil {
			t.Fatal(err)
		}
		if err := remove(m, "dead"); err != nil {
			t.Fatal(err)
		}
		if m.deadLetters.size != 0 {
			t.Errorf("%d dead-letter topics are counted", m.deadLetters.size)
		}
	}
}

// Two changes that are planned from one state and together break a rule: the second is refused.
func TestDeadLetterRulesHoldWhenApplied(t *testing.T) {
	m := newTestMetadata(t)
	create(t, m, "dead", topicID(1), 1)
	plan := func() (*TopicCreate, *TopicDelete, *TopicAlter) {
		name, err := m.PlanCreate(&proto.CreateTopicRequest{Name: "a", Configs: []proto.TopicConfig{deadLetter("dead")}}, topicID(2), testRules)
		if err != nil {
			t.Fatal(err)
		}
		gone, err := m.PlanDelete(&proto.DeleteTopicRequest{Name: "dead"})
		if err != nil {
			t.Fatal(err)
		}
		compact, _, err := m.PlanAlter(&proto.AlterTopicRequest{Name: "dead", Set: []proto.TopicConfig{compacted}}, testRules)
		if err != nil {
			t.Fatal(err)
		}
		return name, gone, compact
	}
	name, gone, compact := plan()
	before := m.Clone()
	if _, err := m.Apply(name); err != nil {
		t.Fatal(err)
	}
	_, err := m.Apply(gone)
	refused(t, "deleted after it was named", err, proto.CodeInvalidRequest, `"a"`)
	_, err = m.Apply(compact)
	refused(t, "compacted after it was named", err, proto.CodeInvalidConfig, `"a"`)
	m = before
	if _, err := m.Apply(gone); err != nil {
		t.Fatal(err)
	}
	_, err = m.Apply(name)
	refused(t, "named after it was deleted", err, proto.CodeInvalidConfig, "no such topic")
	if m.View().Topics() != 0 || m.partitions != 0 {
		t.Error("a refused command changed the state")
	}
}
