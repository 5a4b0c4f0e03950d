package pulsemq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// ProducerOption changes how a producer gathers, sends and repeats.
type ProducerOption func(*producerConfig)

// producerInFlightMax is how many batches of one producer and partition a broker remembers, and so the most that may
// be unanswered when a retry must not store anything twice.
const producerInFlightMax = 5

// producerConfig is what the options change. Every field has a value; none means "unlimited".
type producerConfig struct {
	linger          time.Duration
	batchBytes      int
	batchRecords    int
	compression     Compression
	idempotent      bool
	inFlight        int
	bufferBytes     int
	bufferMessages  int
	bufferBlock     bool
	deliveryTimeout time.Duration
	retryMin        time.Duration
	retryMax        time.Duration
	partitioner     Partitioner
}

func producerConfigDefault() producerConfig {
	return producerConfig{
		linger:          time.Millisecond,
		batchBytes:      256 << 10,
		batchRecords:    8192,
		compression:     CompressionNone,
		idempotent:      true,
		inFlight:        producerInFlightMax,
		bufferBytes:     64 << 20,
		bufferMessages:  1 << 20,
		bufferBlock:     true,
		deliveryTimeout: 30 * time.Second,
		retryMin:        20 * time.Millisecond,
		retryMax:        time.Second,
	}
}

// ProducerLinger is how long a record may wait for others to share its batch while an earlier batch of its partition
// is unanswered; 1 ms by default, 0 sends whatever is there. A record that finds its partition idle never waits: there
// is nothing to gain for the ones behind it, they gather while it is on its way.
func ProducerLinger(d time.Duration) ProducerOption { return func(c *producerConfig) { c.linger = d } }

// ProducerBatchBytes is the size at which a batch is full, before compression; 256 KiB by default. A larger message
// is a batch of its own, up to the broker's limit.
func ProducerBatchBytes(n int) ProducerOption { return func(c *producerConfig) { c.batchBytes = n } }

// ProducerBatchRecords is the number of records at which a batch is full; 8192 by default.
func ProducerBatchRecords(n int) ProducerOption {
	return func(c *producerConfig) { c.batchRecords = n }
}

// ProducerCompression packs batches; CompressionNone by default.
func ProducerCompression(codec Compression) ProducerOption {
	return func(c *producerConfig) { c.compression = codec }
}

// ProducerIdempotence numbers records so that a retry stores them once and in order; on by default. Without it a retry
// may store twice, and with more than one batch in flight also out of order.
func ProducerIdempotence(on bool) ProducerOption {
	return func(c *producerConfig) { c.idempotent = on }
}

// ProducerInFlight is the number of unanswered batches per partition, 1 to 5; 5 by default. The broker may allow less.
func ProducerInFlight(n int) ProducerOption { return func(c *producerConfig) { c.inFlight = n } }

// ProducerBufferBytes bounds the bytes of messages without a result; 64 MiB by default.
func ProducerBufferBytes(n int) ProducerOption { return func(c *producerConfig) { c.bufferBytes = n } }

// ProducerBufferMessages bounds the number of messages without a result; 1,048,576 by default.
func ProducerBufferMessages(n int) ProducerOption {
	return func(c *producerConfig) { c.bufferMessages = n }
}

// ProducerBufferBlock says what a full buffer does: true, the default, makes Send and SendAsync wait until there is room
// or their context ends; false makes them return ErrBufferFull at once.
func ProducerBufferBlock(block bool) ProducerOption {
	return func(c *producerConfig) { c.bufferBlock = block }
}

// ProducerDeliveryTimeout bounds the time from when a message is taken into the buffer to its result, retries and all,
// whatever the broker does; 30 s by default. A message is given up at most a sixteenth of this early, because the records
// of a batch share its clock.
func ProducerDeliveryTimeout(d time.Duration) ProducerOption {
	return func(c *producerConfig) { c.deliveryTimeout = d }
}

// ProducerRetry bounds the wait before a batch is sent again. It doubles from min to max and is jittered by half; 20 ms
// and 1 s by default. A longer wait that the broker asks for is kept.
func ProducerRetry(min, max time.Duration) ProducerOption {
	return func(c *producerConfig) { c.retryMin, c.retryMax = min, max }
}

// ProducerPartitioner chooses partitions for messages that name none; by default a key decides by its murmur2 hash and
// messages without a key stay with one partition per batch.
func ProducerPartitioner(p Partitioner) ProducerOption {
	return func(c *producerConfig) { c.partitioner = p }
}

// validate reports every fault at once.
func (c *producerConfig) validate() error {
	var faults []error
	between := func(option string, n, low, high int) {
		if n < low || n > high {
			faults = append(faults, fmt.Errorf("%s %d: %d to %d is allowed", option, n, low, high))
		}
	}
	between("ProducerBatchBytes", c.batchBytes, 1, 1<<30)
	between("ProducerBatchRecords", c.batchRecords, 1, 1<<24)
	between("ProducerInFlight", c.inFlight, 1, producerInFlightMax)
	between("ProducerBufferBytes", c.bufferBytes, 1, 1<<40)
	between("ProducerBufferMessages", c.bufferMessages, 1, 1<<31)
	if c.linger < 0 {
		faults = append(faults, fmt.Errorf("ProducerLinger %v: at least 0 is allowed", c.linger))
	}
	if c.deliveryTimeout < time.Millisecond {
		faults = append(faults, fmt.Errorf("ProducerDeliveryTimeout %v: at least 1ms is allowed", c.deliveryTimeout))
	}
	if c.linger >= c.deliveryTimeout {
		faults = append(faults, fmt.Errorf("ProducerLinger %v: less than the delivery timeout, %v, is allowed", c.linger, c.deliveryTimeout))
	}
	if c.retryMin < time.Millisecond || c.retryMax < c.retryMin {
		faults = append(faults, fmt.Errorf("ProducerRetry %v, %v: min is at least 1ms and max at least min", c.retryMin, c.retryMax))
	}
	if !proto.Codec(c.compression).Valid() {
		faults = append(faults, ErrUnsupportedCompression.Errorf("ProducerCompression %d: none, gzip, snappy, lz4 and zstd are allowed", uint8(c.compression)))
	}
	return errors.Join(faults...)
}
