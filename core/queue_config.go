package core

import (
	"math"
	"time"
)

// The range of a topic's settings for queue groups.
const (
	// QueueWindowMax bounds the window of one group in one partition, all of which is
	// held in memory and in the partition's state file.
	QueueWindowMax = 100_000

	// QueueAckTimeoutMin is what a lease over a slow network needs to be worth anything,
	// QueueAckTimeoutMax what a record of a dead member waits at most.
	QueueAckTimeoutMin = 100 * time.Millisecond
	QueueAckTimeoutMax = Day

	// QueueDeliveriesMax bounds the deliveries of one record where they are bounded.
	QueueDeliveriesMax = 10_000

	// QueueBackoffMax is the longest wait between two deliveries of a record.
	QueueBackoffMax = 7 * Day
)

// QueueConfig is how queue groups treat the records of a topic.
type QueueConfig struct {
	WindowMax       int // records of one partition and group
	AckTimeout      time.Duration
	DeliveriesMax   int // CountUnlimited when there is no bound
	Backoff         Backoff
	Attempts        QueueAttempts
	DeadLetterTopic string // "" when there is none
}

// QueueAttempts says when a delivery is counted on disk.
type QueueAttempts uint8

const (
	// QueueAttemptsDurable counts a delivery on disk before it is made.
	QueueAttemptsDurable QueueAttempts = iota
	// QueueAttemptsRelaxed counts it with its outcome.
	QueueAttemptsRelaxed
)

var queueAttempts = []string{"durable", "relaxed"}

// String returns the value as configuration writes it.
func (a QueueAttempts) String() string { return queueAttempts[a] }

// queueDefaults hold for topics that do not say otherwise; the broker has no keys for them.
func queueDefaults() QueueConfig {
	return QueueConfig{WindowMax: 10_000, AckTimeout: 30 * time.Second, DeliveriesMax: 5}
}

// deadLetterProblem says why a text cannot name a dead-letter topic, or "". Whether
// there is such a topic only the metadata knows.
func deadLetterProblem(text string) string {
	if text == "" {
		return ""
	}
	return TopicNameProblem(text)
}

// An attempt is counted in 32 bits on the wire.
const _ = uint(math.MaxUint32 - QueueDeliveriesMax)
