package pulsemq

import (
	"errors"
	"fmt"
	"time"
)

// ConsumerOption changes how a consumer reads.
type ConsumerOption func(*consumerConfig)

// ConsumerModeKind is how records come to a consumer.
type ConsumerModeKind uint8

const (
	// ConsumerPull asks each partition for records and waits at the broker while there are none. It is the default: the
	// consumer decides what it reads next, and a pause costs nothing.
	ConsumerPull ConsumerModeKind = iota

	// ConsumerPush subscribes once per broker and is sent records as long as it has room for them. A thousand idle
	// partitions cost nothing, and a new record arrives without having been asked for.
	ConsumerPush
)

// ConsumerResetPolicy says where a consumer goes on when the offset it wants does not exist.
type ConsumerResetPolicy uint8

const (
	ConsumerResetError    ConsumerResetPolicy = iota // stop the partition and tell; the default
	ConsumerResetEarliest                            // tell, and go on at the first record kept
	ConsumerResetLatest                              // tell, and go on behind the last record
	consumerResetAt                                  // tell, and go on at a time: see ConsumerResetAt
)

// consumerConfig is what the options change. Every field has a value; none means "unlimited".
type consumerConfig struct {
	mode             ConsumerModeKind
	fetchBytes       int
	fetchBytesMin    int
	fetchRecords     int
	fetchWait        time.Duration
	fetchConcurrency int
	bufferBytes      int
	pollRecords      int
	recordBytesMax   int
	reset            ConsumerResetPolicy
	resetAt          time.Time
	skipCorrupt      bool
	stopAtEnd        bool
	reuse            bool
	retryMin         time.Duration
	retryMax         time.Duration
}

func consumerConfigDefault() consumerConfig {
	return consumerConfig{
		mode:             ConsumerPull,
		fetchBytes:       1 << 20,
		fetchBytesMin:    1,
		fetchRecords:     1 << 20,
		fetchWait:        500 * time.Millisecond,
		fetchConcurrency: 64,
		bufferBytes:      32 << 20,
		pollRecords:      8192,
		recordBytesMax:   128 << 20,
		reset:            ConsumerResetError,
		retryMin:         20 * time.Millisecond,
		retryMax:         time.Second,
	}
}

// ConsumerMode chooses between ConsumerPull, the default, and ConsumerPush.
func ConsumerMode(mode ConsumerModeKind) ConsumerOption {
	return func(c *consumerConfig) { c.mode = mode }
}

// ConsumerFetchBytes is the most record bytes that one FETCH asks for; 1 MiB by default. A larger batch still comes.
func ConsumerFetchBytes(n int) ConsumerOption { return func(c *consumerConfig) { c.fetchBytes = n } }

// ConsumerFetchBytesMin lets the broker wait until so many record bytes are there; 1 by default.
func ConsumerFetchBytesMin(n int) ConsumerOption {
	return func(c *consumerConfig) { c.fetchBytesMin = n }
}

// ConsumerFetchRecords is the most records that one FETCH asks for; 1,048,576 by default, whole batches still come.
func ConsumerFetchRecords(n int) ConsumerOption {
	return func(c *consumerConfig) { c.fetchRecords = n }
}

// ConsumerFetchWait is how long the broker holds a FETCH that finds nothing; 500 ms by default.
func ConsumerFetchWait(d time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.fetchWait = d }
}

// ConsumerFetchConcurrency is the number of partitions that are asked at one time when pulling; 64 by default. More
// partitions than this take turns.
func ConsumerFetchConcurrency(n int) ConsumerOption {
	return func(c *consumerConfig) { c.fetchConcurrency = n }
}

// ConsumerBufferBytes bounds what is read ahead of the application, as it came over the wire; 32 MiB by default. One
// batch that is larger than all of it still comes, alone.
func ConsumerBufferBytes(n int) ConsumerOption { return func(c *consumerConfig) { c.bufferBytes = n } }

// ConsumerPollRecords is the most records that Poll returns at one time; 8192 by default.
func ConsumerPollRecords(n int) ConsumerOption { return func(c *consumerConfig) { c.pollRecords = n } }

// ConsumerRecordBytesMax bounds what one batch may become when it is decompressed; 128 MiB by default.
func ConsumerRecordBytesMax(n int) ConsumerOption {
	return func(c *consumerConfig) { c.recordBytesMax = n }
}

// ConsumerReset says what happens when the offset wanted does not exist any more or not yet; ConsumerResetError by
// default. The application is told in every case, by a PartitionError from Poll.
func ConsumerReset(policy ConsumerResetPolicy) ConsumerOption {
	return func(c *consumerConfig) { c.reset = policy }
}

// ConsumerResetAt is ConsumerReset for a time: the consumer tells, and goes on at the first record whose time is at or
// after t, or behind the last record when there is none.
func ConsumerResetAt(t time.Time) ConsumerOption {
	return func(c *consumerConfig) { c.reset, c.resetAt = consumerResetAt, t }
}

// ConsumerSkipCorrupt makes the consumer go on behind records that are damaged on the broker's disk. Poll tells which
// ones, by a PartitionError. Without it the partition stops there.
func ConsumerSkipCorrupt(skip bool) ConsumerOption {
	return func(c *consumerConfig) { c.skipCorrupt = skip }
}

// ConsumerStopAtEnd makes Poll return ErrEndOfLog, and Records end, once each partition has been read to where its end
// was when it was first asked.
func ConsumerStopAtEnd() ConsumerOption { return func(c *consumerConfig) { c.stopAtEnd = true } }

// ConsumerReuse has the consumer use the memory of records again: what Poll has returned, keys, values and headers included, is
// good until the next Poll, and a record of a loop over Records until the loop asks for the next one. Clone what is to be
// kept. It spares the collector most of its work, and is for one goroutine that polls. Up to ConsumerBufferBytes of memory
// more are kept.
func ConsumerReuse() ConsumerOption { return func(c *consumerConfig) { c.reuse = true } }

// ConsumerRetry bounds the wait before a partition that failed is asked again. It doubles from min to max and is
// jittered by half; 20 ms and 1 s by default.
func ConsumerRetry(min, max time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.retryMin, c.retryMax = min, max }
}

// validate reports every fault at once.
func (c *consumerConfig) validate() error {
	var faults []error
	between := func(option string, n, low, high int) {
		if n < low || n > high {
			faults = append(faults, fmt.Errorf("%s %d: %d to %d is allowed", option, n, low, high))
		}
	}
	between("ConsumerMode", int(c.mode), int(ConsumerPull), int(ConsumerPush))
	between("ConsumerReset", int(c.reset), int(ConsumerResetError), int(consumerResetAt))
	if c.reset == consumerResetAt {
		if err := StartTime(c.resetAt).validate(); err != nil {
			faults = append(faults, fmt.Errorf("ConsumerResetAt: %w", err))
		}
	}
	between("ConsumerFetchBytes", c.fetchBytes, 1, 1<<30)
	between("ConsumerFetchBytesMin", c.fetchBytesMin, 0, 1<<30)
	between("ConsumerFetchRecords", c.fetchRecords, 1, 1<<30)
	between("ConsumerFetchConcurrency", c.fetchConcurrency, 1, 1<<16)
	between("ConsumerBufferBytes", c.bufferBytes, 1, 1<<40)
	between("ConsumerPollRecords", c.pollRecords, 1, 1<<30)
	between("ConsumerRecordBytesMax", c.recordBytesMax, 1, 1<<31-1)
	if c.fetchWait < 0 || c.fetchWait > time.Hour {
		faults = append(faults, fmt.Errorf("ConsumerFetchWait %v: 0 to 1h is allowed", c.fetchWait))
	}
	if c.retryMin < time.Millisecond || c.retryMax < c.retryMin {
		faults = append(faults, fmt.Errorf("ConsumerRetry %v, %v: min is at least 1ms and max at least min", c.retryMin, c.retryMax))
	}
	return errors.Join(faults...)
}
