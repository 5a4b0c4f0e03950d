package core

// TopicConfig is the effective configuration of one topic.
type TopicConfig struct {
	Durability Durability
}
