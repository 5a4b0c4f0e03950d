package core

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// GroupsTopic is the topic whose partitions keep the consumer groups: that of a group's
// name, as a key, is the group's. Its log holds frames of the broker's own and no records.
const GroupsTopic = "__groups"

// GroupsPartitions is how many partitions that topic has. It never changes: groups would
// change their coordinator.
const GroupsPartitions = 16

// GroupNameProblem says why a name cannot be that of a group, or "" when it can. The rule
// is that of a name which is shown to people on one line.
func GroupNameProblem(name string) string {
	allowed := fmt.Sprintf("allowed are 1 to %d bytes of UTF-8 without control characters", GroupNameBytesMax)
	switch {
	case name == "":
		return "the group's name is empty; " + allowed
	case len(name) > GroupNameBytesMax:
		return fmt.Sprintf("group name %s is too long; %s", Quote(name), allowed)
	case !utf8.ValidString(name):
		return fmt.Sprintf("group name %s is not UTF-8; %s", Quote(name), allowed)
	}
	for _, c := range name {
		if !unicode.IsPrint(c) {
			return fmt.Sprintf("group name %s has a character that is not allowed; %s", Quote(name), allowed)
		}
	}
	return ""
}

// TopicReserved says whether a name is that of a topic of the broker's own.
func TopicReserved(name string) bool {
	return len(name) >= len(topicNameReserved) && name[:len(topicNameReserved)] == topicNameReserved
}
