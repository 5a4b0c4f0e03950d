package core

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// TopicConfig is the effective configuration of one topic.
type TopicConfig struct {
	Durability          Durability
	FlushTime           time.Duration
	FlushBytes          Size
	RetentionTime       time.Duration
	RetentionBytes      Size // of one partition
	SegmentBytes        Size
	SegmentTime         time.Duration
	Cleanup             CleanupPolicy
	MessageBytesMax     Size // of one record batch as sent
	Timestamp           TimestampType
	TimestampAheadMax   time.Duration
	CompressionValidate bool
	Queue               QueueConfig
}

// CleanupPolicy says how old records leave a topic.
type CleanupPolicy uint8

const (
	// CleanupDelete removes whole segments by age and size.
	CleanupDelete CleanupPolicy = iota
	// CleanupCompact keeps the newest record of each key.
	CleanupCompact
)

var cleanupPolicies = []string{"delete", "compact"}

// String returns the policy as configuration writes it.
func (p CleanupPolicy) String() string { return cleanupPolicies[p] }

// TimestampType says whose clock a record's timestamp is.
type TimestampType uint8

const (
	// TimestampCreate keeps the producer's timestamp.
	TimestampCreate TimestampType = iota
	// TimestampAppend replaces it by the broker's time of append.
	TimestampAppend
)

var timestampTypes = []string{"create", "append"}

// String returns the type as configuration writes it.
func (t TimestampType) String() string { return timestampTypes[t] }

// TopicKey declares one configuration key of a topic.
type TopicKey struct {
	Name   string
	Broker string // the broker key that holds its default; "" when the default is fixed
	Domain
	Doc   string
	field func(*TopicConfig) any
}

// Fixed is the default of a key that no key of the broker holds, as configuration writes it.
func (k TopicKey) Fixed() string {
	fixed := TopicConfig{Cleanup: CleanupDelete, Queue: queueDefaults()}
	return k.format(load(k.field(&fixed)))
}

// topicKeys declares every topic key, in the order in which they are listed.
var topicKeys = []TopicKey{
	{"durability", "durability.mode", Domain{Kind: KindChoice, Choices: durabilityNames[:]},
		"What an acknowledgement promises: `sync` is on disk, `batch` is written and synced soon after, `none` is accepted in memory. Raising it first syncs the partition.",
		func(c *TopicConfig) any { return &c.Durability }},
	{"flush.ms", "durability.flush-ms", inMillis(flushTimeDomain),
		"With durability `batch`: the longest that a written record waits for its sync.",
		func(c *TopicConfig) any { return &c.FlushTime }},
	{"flush.bytes", "durability.flush-bytes", flushBytesDomain,
		"With durability `batch`: how many bytes may wait for their sync.",
		func(c *TopicConfig) any { return &c.FlushBytes }},
	{"retention.ms", "retention.ms", inMillis(retentionTimeDomain),
		"How long records are kept. A segment leaves when its newest record is older; the active segment stays.",
		func(c *TopicConfig) any { return &c.RetentionTime }},
	{"retention.bytes", "retention.bytes", retentionBytesDomain,
		"How many bytes of records one partition keeps. The oldest segments beyond it leave; the active segment stays. What groups commit counts only beyond as many bytes again.",
		func(c *TopicConfig) any { return &c.RetentionBytes }},
	{"segment.bytes", "storage.segment-size", segmentBytesDomain,
		"Size from which a new segment file is begun.",
		func(c *TopicConfig) any { return &c.SegmentBytes }},
	{"segment.ms", "storage.segment-ms", inMillis(segmentTimeDomain),
		"Age from which a new segment file is begun, so that retention can remove the old one.",
		func(c *TopicConfig) any { return &c.SegmentTime }},
	{"cleanup.policy", "", Domain{Kind: KindChoice, Choices: cleanupPolicies},
		"How old records leave: `delete` by age and size, `compact` keeps the newest record of each key.",
		func(c *TopicConfig) any { return &c.Cleanup }},
	{"max.message.bytes", "producer.max-batch-bytes", batchBytesDomain,
		"Largest record batch that is accepted, as it is sent; at most producer.max-batch-bytes.",
		func(c *TopicConfig) any { return &c.MessageBytesMax }},
	{"message.timestamp.type", "topics.timestamp-type", Domain{Kind: KindChoice, Choices: timestampTypes},
		"Whose clock a record's timestamp is: `create` keeps the producer's, `append` puts the broker's.",
		func(c *TopicConfig) any { return &c.Timestamp }},
	{"message.timestamp.ahead.max.ms", "topics.timestamp-ahead-max", inMillis(timestampAheadDomain),
		"How far a producer's timestamp may lie ahead of the broker's clock; a batch beyond it is refused.",
		func(c *TopicConfig) any { return &c.TimestampAheadMax }},
	{"compression.validate", "topics.validate-compressed", Domain{Kind: KindBool},
		"Whether compressed batches are opened and their records checked before they are accepted. Uncompressed batches always are.",
		func(c *TopicConfig) any { return &c.CompressionValidate }},
	{"queue.window.max", "", Domain{Kind: KindCount, Min: 1, Max: QueueWindowMax},
		"How many records of a partition a queue group may have between the oldest that is not settled and the newest that was leased. When it is full, nothing further is leased until the oldest is settled.",
		func(c *TopicConfig) any { return &c.Queue.WindowMax }},
	{"queue.ack.timeout.ms", "", Domain{Kind: KindDuration, Min: int64(QueueAckTimeoutMin), Max: int64(QueueAckTimeoutMax), Millis: true},
		"How long a member of a queue group has a record before it goes to another, unless the member asks for another time.",
		func(c *TopicConfig) any { return &c.Queue.AckTimeout }},
	{"queue.max.deliveries", "", Domain{Kind: KindCount, Min: 1, Max: QueueDeliveriesMax, Unlimited: true},
		"How often a record is delivered to a queue group. When the last delivery fails it goes to the dead-letter topic.",
		func(c *TopicConfig) any { return &c.Queue.DeliveriesMax }},
	{"queue.backoff.ms", "", Domain{Kind: KindBackoff, Max: int64(QueueBackoffMax), Millis: true},
		"How long a queue group waits before it delivers a failed record again: after the first delivery, the second, and so on; the last duration repeats.",
		func(c *TopicConfig) any { return &c.Queue.Backoff }},
	{"queue.attempts", "", Domain{Kind: KindChoice, Choices: queueAttempts},
		"Whether a queue group's count of deliveries is on disk before each delivery (`durable`), or only with the outcome (`relaxed`): then a crash forgets the deliveries that were under way.",
		func(c *TopicConfig) any { return &c.Queue.Attempts }},
	{"dead.letter.topic", "", deadLetterDomain,
		"The topic that takes the records that a queue group could not process; it must exist and not be compacted. Empty: such records stay in their partition and are passed over.",
		func(c *TopicConfig) any { return &c.Queue.DeadLetterTopic }},
}

// TopicKeys returns the declarations in the order in which they are listed.
func TopicKeys() []TopicKey { return slices.Clone(topicKeys) }

// ParseTopicConfig puts the given settings over the defaults. Faults are ordered
// by key; when there are any, the returned config must not be used.
func ParseTopicConfig(given map[string]string, defaults TopicConfig) (TopicConfig, Faults) {
	config, faults := defaults, Faults(nil)
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at := slices.IndexFunc(topicKeys, func(k TopicKey) bool { return k.Name == name })
		if at < 0 {
			faults = append(faults, Fault{Key: name, Problem: "no such topic key" + didYouMean(name, topicKeyNames(), "known are "+strings.Join(topicKeyNames(), ", "))})
			continue
		}
		v, err := topicKeys[at].parse(given[name])
		if err != nil {
			faults = append(faults, Fault{Key: name, Value: given[name], Problem: err.Error()})
			continue
		}
		store(topicKeys[at].field(&config), v)
	}
	if config.MessageBytesMax > defaults.MessageBytesMax {
		faults = append(faults, Fault{Key: "max.message.bytes", Value: given["max.message.bytes"], Problem: fmt.Sprintf(
			"allowed is at most the broker's producer.max-batch-bytes (%v), which bounds every topic", defaults.MessageBytesMax)})
	}
	if len(faults) == 0 && config.SegmentBytes < config.MessageBytesMax+segmentRoomBytes {
		faults = append(faults, Fault{Key: "segment.bytes", Value: config.SegmentBytes.String(), Problem: fmt.Sprintf(
			"a segment must hold a largest batch and %v of headers: raise it to at least %v, or lower max.message.bytes (%v)",
			segmentRoomBytes, config.MessageBytesMax+segmentRoomBytes, config.MessageBytesMax)})
	}
	return config, faults
}

// SettingSource says where an effective value of a topic comes from.
type SettingSource string

const (
	SourceDefault SettingSource = "default" // the broker's configuration
	SourceTopic   SettingSource = "topic"   // the topic's own
)

// TopicSetting is one line of a topic's description.
type TopicSetting struct {
	Name   string
	Value  string
	Source SettingSource
}

// List describes the effective configuration, one entry per key in the order of
// the declarations. given holds what the topic itself set.
func (c TopicConfig) List(given map[string]string) []TopicSetting {
	list := make([]TopicSetting, len(topicKeys))
	for i, key := range topicKeys {
		list[i] = TopicSetting{key.Name, key.format(load(key.field(&c))), SourceDefault}
		if _, own := given[key.Name]; own {
			list[i].Source = SourceTopic
		}
	}
	return list
}

func topicKeyNames() []string {
	names := make([]string, len(topicKeys))
	for i, key := range topicKeys {
		names[i] = key.Name
	}
	return names
}

// didYouMean ends an error about an unknown name: with the nearest known name,
// or else with where all of them are.
func didYouMean(name string, known []string, all string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; " + all
}
