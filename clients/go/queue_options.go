package pulsemq

import (
	"errors"
	"fmt"
	"time"
)

// QueueOption changes how a queue consumer takes part in its group.
type QueueOption func(*queueConfig)

// queueConfig is what the options change.
type queueConfig struct {
	memberConfig
	concurrency int
	prefetch    int // 0: as the concurrency
	ackTimeout  time.Duration
	handleMax   time.Duration
	start       Start
	startNone   bool
	atMostOnce  bool
	onError     func(*QueueMessage, error)
}

func queueConfigDefault() queueConfig {
	return queueConfig{
		memberConfig: memberConfig{session: 30 * time.Second, rebalance: time.Minute},
		concurrency:  1, handleMax: time.Hour, start: StartEarliest(),
	}
}

// QueueTopics are the topics to read. A topic that does not exist yet is read once it does.
func QueueTopics(topics ...string) QueueOption {
	return func(c *queueConfig) { c.topics = append(c.topics, topics...) }
}

// QueuePattern reads every topic whose whole name matches a regular expression, also those that come later.
func QueuePattern(pattern string) QueueOption { return func(c *queueConfig) { c.pattern = pattern } }

// QueueInstance makes a static member: a process that joins under the same name within the session time-out takes the
// last one's place.
func QueueInstance(name string) QueueOption { return func(c *queueConfig) { c.instance = name } }

// QueueClientName is shown to people who look at the group.
func QueueClientName(name string) QueueOption { return func(c *queueConfig) { c.clientName = name } }

// QueueSessionTimeout is after how long without a sign of life the member is removed; 30 s by default.
func QueueSessionTimeout(d time.Duration) QueueOption { return func(c *queueConfig) { c.session = d } }

// QueueConcurrency is how many messages Handle works on at a time; 1 by default.
func QueueConcurrency(n int) QueueOption { return func(c *queueConfig) { c.concurrency = n } }

// QueuePrefetch is how many messages each broker leases to this consumer at a time, those that are worked on included; by
// default as many as QueueConcurrency says, so that none waits here while another member is idle. More of them are faster
// when messages are quick to handle. When the process dies each of them counts as delivered, begun or not.
func QueuePrefetch(n int) QueueOption { return func(c *queueConfig) { c.prefetch = n } }

// QueueAckTimeout is how long the broker waits for a sign of life about a message before it gives it to somebody else;
// the topic's queue.ack.timeout.ms by default. Leases of messages that are worked on are extended by themselves.
func QueueAckTimeout(d time.Duration) QueueOption { return func(c *queueConfig) { c.ackTimeout = d } }

// QueueHandleMax is how long a message may be worked on; 1 hour by default. Then its lease is not extended any more, and
// somebody else gets it: a handler that hangs does not keep it for ever.
func QueueHandleMax(d time.Duration) QueueOption { return func(c *queueConfig) { c.handleMax = d } }

// QueueStart is where the group begins in a partition that it has not begun; StartEarliest by default.
func QueueStart(at Start) QueueOption {
	return func(c *queueConfig) { c.start, c.startNone = at, false }
}

// QueueStartNone stops a partition that the group has not begun, and tells it by a PartitionError with ErrNoOffset.
func QueueStartNone() QueueOption { return func(c *queueConfig) { c.startNone = true } }

// QueueAtMostOnce acknowledges messages before they are handed out: one that is lost with the process never comes again,
// and none comes twice. Without it each message comes at least once.
func QueueAtMostOnce() QueueOption { return func(c *queueConfig) { c.atMostOnce = true } }

// QueueOnError is called with a message whose lease was lost (ErrLeaseLost), whose outcome may not have reached the
// broker, or whose Nack or Extend was not sent because of its time (ErrInvalidTimeout), and with what Handle has to tell about a partition, which is a PartitionError and has no message. Calls come
// one at a time.
func QueueOnError(f func(*QueueMessage, error)) QueueOption {
	return func(c *queueConfig) { c.onError = f }
}

// credit is how many messages a broker leases at a time.
func (c *queueConfig) credit() int {
	if c.prefetch > 0 {
		return c.prefetch
	}
	return c.concurrency
}

// validate reports every fault at once.
func (c *queueConfig) validate(group string) error {
	faults := c.memberConfig.faults(group, "Queue")
	for _, n := range []struct {
		option string
		n, min int
	}{{"QueueConcurrency", c.concurrency, 1}, {"QueuePrefetch", c.prefetch, 0}} {
		if n.n < n.min || n.n > 100_000 {
			faults = append(faults, fmt.Errorf("%s %d: %d to 100000 is allowed", n.option, n.n, n.min))
		}
	}
	if c.ackTimeout != 0 && (c.ackTimeout < leaseTimeoutMin || c.ackTimeout > leaseTimeoutMax) {
		faults = append(faults, fmt.Errorf("QueueAckTimeout %v: 100ms to 24h is allowed, or 0 for the topic's", c.ackTimeout))
	}
	if c.handleMax < time.Second {
		faults = append(faults, fmt.Errorf("QueueHandleMax %v: at least 1s is allowed", c.handleMax))
	}
	if err := c.start.validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
