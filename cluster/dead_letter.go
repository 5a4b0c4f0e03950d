package cluster

import (
	"fmt"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// What holds between a topic and its dead-letter topic, at every moment: the
// dead-letter topic exists, so that a record that is given up has a place to go;
// it keeps every record and takes those without keys, so it is not compacted; and
// no path of dead letters comes back to where it began.

// deadLetterPathMax bounds the topics on a path of dead letters.
const deadLetterPathMax = 8

// deadLetterProblem says what keeps a topic of that name from having the
// configuration after, or "". before is the one that it has; a new topic has none.
// What does not change is not looked at again.
func (m *Metadata) deadLetterProblem(name string, before, after core.TopicConfig) *core.Fault {
	if after.Cleanup == core.CleanupCompact && before.Cleanup != core.CleanupCompact && m.deadLetterOf(name) > 0 {
		return &core.Fault{Key: "cleanup.policy", Value: after.Cleanup.String(), Problem: fmt.Sprintf(
			"it is the dead-letter topic of %s, and a compacted topic would drop dead letters with equal keys and refuse those without: leave it at delete, or set their dead.letter.topic to another first",
			m.deadLetterSources(name))}
	}
	target := after.Queue.DeadLetterTopic
	if target == "" || target == before.Queue.DeadLetterTopic {
		return nil
	}
	fault := func(format string, args ...any) *core.Fault {
		return &core.Fault{Key: "dead.letter.topic", Value: target, Problem: fmt.Sprintf(format, args...)}
	}
	if target == name {
		return fault("a topic cannot be its own dead-letter topic: dead records would be delivered again for ever; create another topic and name that")
	}
	topic, ok := m.byName.get(target)
	switch {
	case !ok:
		return fault("there is no such topic; create it first (pulsectl topic create %s)", target)
	case topic.Config.Cleanup == core.CleanupCompact:
		return fault("it is compacted, and would drop dead letters with equal keys and refuse those without; name a topic with cleanup.policy=delete")
	}
	for steps := 1; topic.Config.Queue.DeadLetterTopic != ""; steps++ {
		next := topic.Config.Queue.DeadLetterTopic
		if next == name {
			return fault("its dead letters come back to %s by way of %s, and would be delivered again for ever; unset dead.letter.topic of %s, or name another topic", name, topic.Name, topic.Name)
		}
		if steps == deadLetterPathMax {
			return fault("more than %d dead-letter topics follow one another from there; name a topic further on", deadLetterPathMax)
		}
		if topic, ok = m.byName.get(next); !ok {
			break
		}
	}
	return nil
}

// deadLetterAllowed is deadLetterProblem for a command that is applied: what held
// when it was planned need not hold any more.
func (m *Metadata) deadLetterAllowed(name string, before, after core.TopicConfig) *proto.Error {
	if fault := m.deadLetterProblem(name, before, after); fault != nil {
		return proto.CodeInvalidConfig.Errorf("topic %s: %s", core.Quote(name), core.Faults{*fault}.Error())
	}
	return nil
}

// deadLetterFree refuses to delete a topic that others name as their dead-letter
// topic: records of theirs may be on their way.
func (m *Metadata) deadLetterFree(topic *core.Topic) *proto.Error {
	if m.deadLetterOf(topic.Name) == 0 {
		return nil
	}
	return proto.CodeInvalidRequest.Errorf(
		"topic %s is the dead-letter topic of %s: set their dead.letter.topic to another, or unset it (pulsectl topic alter NAME --unset dead.letter.topic), then delete it",
		core.Quote(topic.Name), m.deadLetterSources(topic.Name))
}

// deadLetterOf is how many topics have the one of that name as dead-letter topic.
func (m *Metadata) deadLetterOf(name string) int {
	count, _ := m.deadLetters.get(name)
	return count
}

// deadLetterMoved keeps the counts when a topic's dead-letter topic becomes another; "" is none.
func (m *Metadata) deadLetterMoved(before, after string) {
	if before == after {
		return
	}
	if count := m.deadLetterOf(before); count > 1 {
		m.deadLetters = m.deadLetters.with(before, count-1)
	} else if before != "" {
		m.deadLetters = m.deadLetters.without(before)
	}
	if after != "" {
		m.deadLetters = m.deadLetters.with(after, m.deadLetterOf(after)+1)
	}
}

// deadLetterSources names a topic that has the one of that name as dead-letter
// topic, and how many others there are.
func (m *Metadata) deadLetterSources(name string) (sources string) {
	m.byName.all(func(source string, topic *core.Topic) bool {
		if topic.Config.Queue.DeadLetterTopic == name {
			sources = core.Quote(source)
		}
		return sources == ""
	})
	if more := m.deadLetterOf(name) - 1; more > 0 {
		sources += fmt.Sprintf(" and %d more", more)
	}
	return sources
}
