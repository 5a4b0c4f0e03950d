package core

import "fmt"

// topicNameReserved begins the names of the broker's own topics.
const topicNameReserved = "__"

var topicNameAllowed = fmt.Sprintf("allowed are 1 to %d characters of A-Z a-z 0-9 . _ -", TopicNameBytesMax)

// TopicNameProblem says why a name cannot be given to a topic, or "" when it can.
// Names never become paths; the rules keep them safe in logs, metric labels,
// URLs and shells.
func TopicNameProblem(name string) string {
	switch {
	case name == "":
		return "the topic name is empty; " + topicNameAllowed
	case len(name) > TopicNameBytesMax:
		return fmt.Sprintf("topic name %s is too long; %s", Quote(name), topicNameAllowed)
	case name == "." || name == "..":
		return fmt.Sprintf("topic name %s is not allowed: it would read as a folder; %s", Quote(name), topicNameAllowed)
	}
	for i := 0; i < len(name); i++ {
		if !topicNameByte(name[i]) {
			return fmt.Sprintf("topic name %s has a character that is not allowed at byte %d; %s", Quote(name), i, topicNameAllowed)
		}
	}
	if len(name) >= len(topicNameReserved) && name[:len(topicNameReserved)] == topicNameReserved {
		return fmt.Sprintf("topic name %s begins with %q, which is reserved for the broker's own topics", Quote(name), topicNameReserved)
	}
	return ""
}

func topicNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
