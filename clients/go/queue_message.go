package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// QueueMessage is a record that is leased to this consumer: nobody else in the group gets it until it is settled, or the
// consumer does not give a sign of life any more. Its methods may be called from any goroutine.
type QueueMessage struct {
	Record

	// Attempt is how often the group has been given the message, with this time; 1 at first.
	Attempt int

	consumer *QueueConsumer
	lease    *leasing
	extendAt time.Time // when its lease is extended next
	extended bool      // an extension was put on the list
	begun    time.Time // when it was handed out; zero while it waits here
	settled  bool      // an outcome was given
	unsent   error     // why a Nack was not sent; then the message is not acknowledged by itself
	final    Settling  // that outcome
	lost     error     // why the lease is over; nil while it is not
	ended    func(error)
}

// ErrSettled says that a message was given another outcome before.
var ErrSettled = errors.New("pulsemq: the message has another outcome already")

// Ack says that the message is done. Like every outcome it is sent in the background, together with others; Wait of what
// it returns tells when it is on the broker's disk.
func (m *QueueMessage) Ack() *Settling { return m.settle(proto.SettlementAck, 0, "") }

// Nack gives the message back, to be delivered again after a delay; 0 leaves that to the topic's queue.backoff.ms. When
// its deliveries are used up it goes to the dead-letter topic, with the reason. A delay below 0 or above 7 days is not sent
// and does not settle the message: Wait, and QueueOnError, say ErrInvalidTimeout. Handle and Messages then give the message
// back, with the topic's back-off, rather than acknowledge it, unless it is settled before.
func (m *QueueMessage) Nack(delay time.Duration, reason string) *Settling {
	return m.settle(proto.SettlementNack, delay, reason)
}

// Reject says that the message can never be processed: it goes to the dead-letter topic, whatever deliveries are left.
func (m *QueueMessage) Reject(reason string) *Settling {
	return m.settle(proto.SettlementReject, 0, reason)
}

// Release gives the message back as if it had not been delivered.
func (m *QueueMessage) Release() *Settling { return m.settle(proto.SettlementRelease, 0, "") }

// Extend makes the lease begin anew; with 0 as long as it was. The consumer does that by itself while the message is
// worked on; it is for those that need more at once than QueueAckTimeout: 100 ms to 24 hours. Anything else but
// 0 is not sent, and the lease stays as it is: Wait, and QueueOnError, say ErrInvalidTimeout.
func (m *QueueMessage) Extend(d time.Duration) *Settling {
	return m.settle(proto.SettlementExtend, d, "")
}

// Lost says why the message is not leased to this consumer any more although it was not settled; nil while it is.
func (m *QueueMessage) Lost() error {
	m.consumer.mu.Lock()
	defer m.consumer.mu.Unlock()
	return m.lost
}

// settle sends an outcome on its way.
func (m *QueueMessage) settle(outcome proto.Settlement, delay time.Duration, reason string) *Settling {
	q := m.consumer
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := delayFault(outcome, delay); err != nil && !m.settled {
		if outcome == proto.SettlementNack {
			m.unsent = err
		}
		q.report(m, err)
		return &Settling{consumer: q, over: true, err: err}
	}
	s := &Settling{}
	if outcome != proto.SettlementExtend {
		s = &m.final
	}
	switch {
	case m.settled && outcome == m.final.outcome:
		return &m.final
	case m.settled:
		return &Settling{consumer: q, over: true, err: fmt.Errorf("%w: %v", ErrSettled, m.final.outcome)}
	}
	*s = Settling{consumer: q, message: m, base: m.Offset, next: m.Offset + 1, attempt: uint32(m.Attempt),
		outcome: outcome, delay: millis(delay), reason: cut(reason, settleReasonBytesMax)}
	m.settled = outcome != proto.SettlementExtend
	if m.lost != nil {
		s.finish(m.lost)
	} else {
		m.lease.settle(proto.TopicPartition{TopicID: m.lease.topic(m), Partition: m.Partition}, s)
	}
	if m.settled { // behind the outcome: what is given back is leased before what is newer
		m.lease.drop(m)
	}
	return s
}

// What the broker allows; it would refuse the outcomes of other messages together with one outside.
const (
	nackDelayMax    = proto.NackDelayMsMax * time.Millisecond
	leaseTimeoutMin = proto.LeaseTimeoutMsMin * time.Millisecond
	leaseTimeoutMax = proto.LeaseTimeoutMsMax * time.Millisecond
)

// delayFault says what is wrong with the time of an outcome; nil when nothing is.
func delayFault(outcome proto.Settlement, d time.Duration) error {
	switch {
	case outcome == proto.SettlementNack && (d < 0 || d > nackDelayMax):
		return ErrInvalidTimeout.Errorf("Nack with a delay of %v: 0 to %v is allowed", d, nackDelayMax)
	case outcome == proto.SettlementExtend && d != 0 && (d < leaseTimeoutMin || d > leaseTimeoutMax):
		return ErrInvalidTimeout.Errorf("Extend by %v: %v to %v is allowed, or 0 for as long as it was", d, leaseTimeoutMin, leaseTimeoutMax)
	}
	return nil
}

// millis are whole milliseconds: a delay that is not 0 stays one.
func millis(d time.Duration) uint32 {
	return uint32(min(max((d+time.Millisecond-1)/time.Millisecond, 0), 1<<32-1))
}

// cut shortens a text to bytes, and leaves out the half of a character at its end.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && text[bytes]&0xc0 == 0x80 {
		bytes--
	}
	return text[:bytes]
}

// lose ends the lease of a message from outside, and has that told unless nobody has been handed it. It is called with
// the consumer's lock held.
func (m *QueueMessage) lose(err error) {
	if m.lost != nil {
		return
	}
	m.lost = err
	if m.ended != nil {
		m.ended(err)
	}
	if !m.begun.IsZero() {
		m.consumer.report(m, err)
	}
}

// Settling is an outcome on its way to the broker.
type Settling struct {
	consumer *QueueConsumer
	message  *QueueMessage // nil for records that nobody was handed
	base     int64
	next     int64
	attempt  uint32
	outcome  proto.Settlement
	delay    uint32 // milliseconds
	reason   string
	alone    bool // a request with others was refused: it is sent again, as the only range
	over     bool
	err      error
	done     chan struct{} // made by who waits
}

// Wait waits until the broker has the outcome on disk. ErrLeaseLost says that the message was somebody else's by then, or
// is delivered once more; another error that the outcome may or may not have reached the broker.
func (s *Settling) Wait(ctx context.Context) error {
	s.consumer.mu.Lock()
	if s.over {
		defer s.consumer.mu.Unlock()
		return s.err
	}
	if s.done == nil {
		s.done = make(chan struct{})
	}
	done := s.done
	s.consumer.mu.Unlock()
	select {
	case <-done:
		s.consumer.mu.Lock()
		defer s.consumer.mu.Unlock()
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish tells what became of it. It is called with the consumer's lock held.
func (s *Settling) finish(err error) {
	if s.over {
		return
	}
	s.over, s.err = true, err
	if s.done != nil {
		close(s.done)
	}
	m, q := s.message, s.consumer
	if m == nil {
		return
	}
	switch {
	case q.config.atMostOnce && s == &m.final && m.begun.IsZero():
		if err == nil {
			q.ready = append(q.ready, m)
			q.signal()
		} else {
			m.lease.repay(1) // it was for nobody
		}
	case err != nil:
		m.lose(err)
	}
}
