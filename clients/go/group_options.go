package pulsemq

import (
	"errors"
	"fmt"
	"time"
)

// GroupOption changes how a group consumer takes part in its group.
type GroupOption func(*groupConfig)

// GroupPartition is a partition that a member of a group reads.
type GroupPartition struct {
	Topic     string
	Partition uint32
	Offset    int64 // where it goes on; in OnRevoked and OnLost where it stopped
}

// groupConfig is what the options change.
type groupConfig struct {
	memberConfig
	maxPoll   time.Duration
	commit    time.Duration // 0: manual
	start     Start
	startNone bool
	assigned  func([]GroupPartition)
	revoked   func([]GroupPartition)
	lost      func([]GroupPartition)
	consumer  []ConsumerOption
}

func groupConfigDefault() groupConfig {
	return groupConfig{memberConfig: memberConfig{session: 30 * time.Second, rebalance: time.Minute}, maxPoll: 5 * time.Minute, commit: time.Second, start: StartEarliest()}
}

// GroupTopics are the topics to read. A topic that does not exist yet is read once it does.
func GroupTopics(topics ...string) GroupOption {
	return func(c *groupConfig) { c.topics = append(c.topics, topics...) }
}

// GroupPattern reads every topic whose whole name matches a regular expression, also those that come later.
func GroupPattern(pattern string) GroupOption { return func(c *groupConfig) { c.pattern = pattern } }

// GroupInstance makes a static member: a process that joins under the same name within the session time-out gets the
// partitions that the last one had, and nobody else's move.
func GroupInstance(name string) GroupOption { return func(c *groupConfig) { c.instance = name } }

// GroupClientName is shown to people who look at the group.
func GroupClientName(name string) GroupOption { return func(c *groupConfig) { c.clientName = name } }

// GroupSessionTimeout is after how long without a sign of life the member is removed; 30 s by default. Signs of life are
// sent in the background, however long a record takes.
func GroupSessionTimeout(d time.Duration) GroupOption { return func(c *groupConfig) { c.session = d } }

// GroupRebalanceTimeout is how long the member may take to give partitions up; 1 minute by default. It waits for the
// records that are being processed.
func GroupRebalanceTimeout(d time.Duration) GroupOption {
	return func(c *groupConfig) { c.rebalance = d }
}

// GroupMaxPoll is the longest time between two Polls; 5 minutes by default. A member that takes longer is stuck: it
// leaves the group, so that others go on with its partitions, and joins anew with its next Poll.
func GroupMaxPoll(d time.Duration) GroupOption { return func(c *groupConfig) { c.maxPoll = d } }

// GroupAutoCommit is how often what has been processed is committed; every second by default. A record counts as
// processed when the next Poll, or the next step of the loop over Records, asks for more. 0 leaves it to Commit,
// also when partitions are given up: OnRevoked is the place to commit what was processed of them.
func GroupAutoCommit(every time.Duration) GroupOption {
	return func(c *groupConfig) { c.commit = every }
}

// GroupStart is where the group begins in a partition that it has never committed to; StartEarliest by default. It may
// be a time.
func GroupStart(at Start) GroupOption {
	return func(c *groupConfig) { c.start, c.startNone = at, false }
}

// GroupStartNone stops a partition that the group has never committed to, and tells it by a PartitionError with
// ErrNoOffset: Seek begins it.
func GroupStartNone() GroupOption { return func(c *groupConfig) { c.startNone = true } }

// GroupOnAssigned is called with the partitions that came, before their first record. Callbacks are called one at a time,
// never from Poll, and may not close the consumer.
func GroupOnAssigned(f func([]GroupPartition)) GroupOption {
	return func(c *groupConfig) { c.assigned = f }
}

// GroupOnRevoked is called with the partitions that are given up, after their last record was processed and before what
// was processed is committed and others get them.
func GroupOnRevoked(f func([]GroupPartition)) GroupOption {
	return func(c *groupConfig) { c.revoked = f }
}

// GroupOnLost is called with partitions that others may have already: the member was removed. Nothing of them can be
// committed any more.
func GroupOnLost(f func([]GroupPartition)) GroupOption { return func(c *groupConfig) { c.lost = f } }

// GroupReads are options of the consumer that reads the partitions. ConsumerReset says what happens when the committed
// offset does not exist any more.
func GroupReads(options ...ConsumerOption) GroupOption {
	return func(c *groupConfig) { c.consumer = append(c.consumer, options...) }
}

// validate reports every fault at once.
func (c *groupConfig) validate(group string) error {
	faults := c.memberConfig.faults(group, "Group")
	for _, d := range []struct {
		option   string
		d        time.Duration
		min, max time.Duration
	}{{"GroupRebalanceTimeout", c.rebalance, 500 * time.Millisecond, time.Hour},
		{"GroupMaxPoll", c.maxPoll, time.Second, 24 * time.Hour}, {"GroupAutoCommit", c.commit, 0, time.Hour}} {
		if d.d < d.min || d.d > d.max {
			faults = append(faults, fmt.Errorf("%s %v: %v to %v is allowed", d.option, d.d, d.min, d.max))
		}
	}
	if err := c.start.validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
