package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// Error is a refusal as the broker sent it: its code, a text that says what was given and what is allowed, and the
// details that its code has. Find it with errors.As; compare codes with errors.Is(err, pulsemq.ErrUnknownTopic).
type Error = proto.Error

// The codes of the protocol. Each of them is an error that errors.Is finds in whatever this package returns.
const (
	ErrInternal                 = proto.CodeInternal
	ErrUnknownCommand           = proto.CodeUnknownCommand
	ErrUnsupportedVersion       = proto.CodeUnsupportedVersion
	ErrMalformedRequest         = proto.CodeMalformedRequest
	ErrFrameTooLarge            = proto.CodeFrameTooLarge
	ErrHandshakeRequired        = proto.CodeHandshakeRequired
	ErrWindowExceeded           = proto.CodeWindowExceeded
	ErrOverloaded               = proto.CodeOverloaded
	ErrTimedOut                 = proto.CodeTimedOut
	ErrShuttingDown             = proto.CodeShuttingDown
	ErrInvalidRequest           = proto.CodeInvalidRequest
	ErrTooManyConnections       = proto.CodeTooManyConnections
	ErrTooManySubscriptions     = proto.CodeTooManySubscriptions
	ErrConnectionIdle           = proto.CodeConnectionIdle
	ErrSlowConsumer             = proto.CodeSlowConsumer
	ErrUnknownSubscription      = proto.CodeUnknownSubscription
	ErrUnknownTopic             = proto.CodeUnknownTopic
	ErrTopicExists              = proto.CodeTopicExists
	ErrInvalidName              = proto.CodeInvalidName
	ErrInvalidPartition         = proto.CodeInvalidPartition
	ErrInvalidPartitionCount    = proto.CodeInvalidPartitionCount
	ErrInvalidReplicationFactor = proto.CodeInvalidReplicationFactor
	ErrInvalidConfig            = proto.CodeInvalidConfig
	ErrNotLeader                = proto.CodeNotLeader
	ErrFencedLeaderEpoch        = proto.CodeFencedLeaderEpoch
	ErrUnknownLeaderEpoch       = proto.CodeUnknownLeaderEpoch
	ErrLogTruncated             = proto.CodeLogTruncated
	ErrOffsetOutOfRange         = proto.CodeOffsetOutOfRange
	ErrPartitionUnavailable     = proto.CodePartitionUnavailable
	ErrCorruptRecord            = proto.CodeCorruptRecord
	ErrCorruptBatch             = proto.CodeCorruptBatch
	ErrBatchTooLarge            = proto.CodeBatchTooLarge
	ErrInvalidTimestamp         = proto.CodeInvalidTimestamp
	ErrUnsupportedCompression   = proto.CodeUnsupportedCompression
	ErrInvalidProducerEpoch     = proto.CodeInvalidProducerEpoch
	ErrOutOfOrderSequence       = proto.CodeOutOfOrderSequence
	ErrUnknownProducer          = proto.CodeUnknownProducer
	ErrDuplicateSequence        = proto.CodeDuplicateSequence
	ErrStorageFull              = proto.CodeStorageFull
	ErrStorageError             = proto.CodeStorageError
	ErrUnknownGroup             = proto.CodeUnknownGroup
	ErrUnknownMember            = proto.CodeUnknownMember
	ErrStaleEpoch               = proto.CodeStaleEpoch
	ErrGroupNotEmpty            = proto.CodeGroupNotEmpty
	ErrGroupKindMismatch        = proto.CodeGroupKindMismatch
	ErrGroupFull                = proto.CodeGroupFull
	ErrInvalidTimeout           = proto.CodeInvalidTimeout
	ErrLeaseLost                = proto.CodeLeaseLost
)

// Errors that no broker sends: they happen on this side.
var (
	// ErrClosed is the answer of a client, producer or consumer that has been closed.
	ErrClosed = conn.ErrClosed

	// ErrBufferFull is returned by Send and SendAsync of a producer with ProducerBufferBlock(false).
	ErrBufferFull = errors.New("pulsemq: the producer's buffer is full")

	// ErrDeliveryTimeout is the result of a message that had no answer within the delivery timeout. It may be stored
	// all the same when it had been sent; the cause in the chain says what kept it.
	ErrDeliveryTimeout = errors.New("pulsemq: not acknowledged within the delivery timeout")

	// ErrUnreachable says that no broker could be connected to; the chain says why.
	ErrUnreachable = cluster.ErrUnreachable

	// ErrDisconnected says that a connection ended before the answer came: the request may have been carried out.
	ErrDisconnected = conn.ErrDisconnected

	// ErrRequestTimeout says that a broker did not answer in time: the request may have been carried out.
	ErrRequestTimeout = conn.ErrRequestTimeout

	// ErrEndOfLog is returned by Poll of a consumer with ConsumerStopAtEnd once every partition is read to its end.
	ErrEndOfLog = errors.New("pulsemq: the end of the log")
)

// Retriable reports whether the same call may succeed later: the broker was busy, moved or out of reach. An error of
// the call's own context is not retriable, because the caller's time is over.
func Retriable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		return false
	}
	var code proto.Code
	if errors.As(err, &code) {
		return code.Retriable()
	}
	for _, e := range []error{ErrUnreachable, ErrDisconnected, ErrRequestTimeout, ErrDeliveryTimeout, ErrBufferFull} {
		if errors.Is(err, e) {
			return true
		}
	}
	var n net.Error
	return errors.As(err, &n) && !errors.Is(err, context.DeadlineExceeded)
}

// PartitionError is what Poll reports about one partition. The records before it have been returned before it, those
// after it come after it.
type PartitionError struct {
	Topic     string
	Partition uint32

	// Err has the code and its details: ErrOffsetOutOfRange, ErrLogTruncated, ErrCorruptRecord, ErrUnknownTopic, ...
	Err error

	// Stopped says that the partition is not read any more until Seek or Unassign. When it is false the error is only
	// told, and reading goes on at Next.
	Stopped bool

	// Base and Next are the offsets that are missing or were asked for, [Base, Next). When they are equal it is the
	// place where the partition stands.
	Base, Next int64
}

func (e *PartitionError) Error() string {
	fate := fmt.Sprintf("reading goes on at offset %d", e.Next)
	if e.Stopped {
		fate = "the partition is stopped until it is sought or unassigned"
	}
	return fmt.Sprintf("pulsemq: topic %q partition %d at offset %d: %v; %s", e.Topic, e.Partition, e.Base, e.Err, fate)
}

// Unwrap lets errors.Is and errors.As see the cause.
func (e *PartitionError) Unwrap() error { return e.Err }

// wrapTopic says which topic an error is about, unless it does so already.
func wrapTopic(topic string, err error) error {
	return fmt.Errorf("pulsemq: topic %q: %w", topic, err)
}
