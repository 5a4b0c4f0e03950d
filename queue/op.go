package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pulsemq/pulsemq/core"
)

// OpKind says what an op does. Numbers are never reused.
type OpKind uint8

const (
	// Begin makes the window.
	Begin OpKind = 1
	// Lease counts a delivery, before it is seen.
	Lease OpKind = 2
	// Settle ends records.
	Settle OpKind = 3
	// Retry makes records available again, now or later.
	Retry OpKind = 4
	// Die puts records on the way to the dead-letter topic.
	Die OpKind = 5
	// Bury keeps records that nobody shall have any more, where there is no such topic.
	Bury OpKind = 6
)

// Reason says why a record died.
type Reason uint8

const (
	// NoReason is that of records that live.
	NoReason Reason = iota
	// Nacked: it came back by a NACK, and its attempts were used up.
	Nacked
	// TimedOut: its last lease was over.
	TimedOut
	// Abandoned: whoever had it in its last attempt went away.
	Abandoned
	// Rejected: a member wants it delivered never again.
	Rejected
	// Spent: its attempts were used up before anybody was asked, as when fewer are allowed than before.
	Spent
	// Damaged: the log cannot give it any more.
	Damaged
	// TooLarge: with its provenance it is larger than the dead-letter topic takes.
	TooLarge

	reasons
)

var reasonTexts = [reasons]string{"", "nacked", "timed-out", "abandoned", "rejected", "attempts-used-up", "damaged", "too-large"}

// String is the reason as a dead-letter record tells it.
func (r Reason) String() string { return reasonTexts[r] }

// Op is one change of the records [Base, Next).
type Op struct {
	Kind       OpKind
	Reason     Reason // of Die and Bury
	Attempts   uint16 // of Lease and Retry: afterwards
	Base, Next int64
	Time       int64  // of Retry: until when, milliseconds; 0 now
	Text       string // of Die and Bury: what the member said
	Identity   uint64 // of Begin
}

const (
	// AttemptsMax is as far as deliveries are counted.
	AttemptsMax = math.MaxUint16
	// timeMax bounds times, so that a record's snapshot is bounded: the year 6429.
	timeMax = 1 << 47
)

// follows says that op does to the records behind o what o does, so that they are one.
func (op *Op) follows(o *Op) bool {
	return o.Next == op.Base && o.Kind == op.Kind && o.Attempts == op.Attempts && o.Time == op.Time &&
		o.Reason == op.Reason && o.Text == op.Text && op.Kind != Begin
}

// Add appends an op to those of a frame, or makes the last one longer.
func Add(ops []Op, op Op) []Op {
	if n := len(ops); n > 0 && op.follows(&ops[n-1]) {
		ops[n-1].Next = op.Next
		return ops
	}
	return append(ops, op)
}

// Head is what the ops of a body have in common.
type Head struct {
	// Owner is the owner epoch of the window that they are for: they do nothing to another.
	Owner int64
	Time  int64 // wall clock, milliseconds
}

// Append begins a body; ops follow.
func (h Head) Append(b []byte) []byte {
	b = binary.AppendVarint(b, h.Owner)
	return binary.AppendVarint(b, h.Time)
}

// Append appends the op to a body; behind is the Next of the op before, at first 0.
func (op *Op) Append(b []byte, behind int64) []byte {
	b = append(b, byte(op.Kind))
	b = binary.AppendVarint(b, op.Base-behind)
	b = binary.AppendUvarint(b, uint64(op.Next-op.Base))
	switch op.Kind {
	case Begin:
		b = binary.BigEndian.AppendUint64(b, op.Identity)
	case Lease:
		b = binary.AppendUvarint(b, uint64(op.Attempts))
	case Retry:
		b = binary.AppendUvarint(b, uint64(op.Attempts))
		b = binary.AppendVarint(b, op.Time)
	case Die, Bury:
		b = appendReason(b, op.Reason, op.Text)
	}
	return b
}

func appendReason(b []byte, reason Reason, text string) []byte {
	b = append(b, byte(reason))
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

var errCut = errors.New("cut short")

// reader takes a body or a snapshot apart; what fails first stays.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err, r.b = err, nil
	}
}

func (r *reader) u8() byte {
	if len(r.b) == 0 {
		r.fail(errCut)
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) u64() uint64 {
	if len(r.b) < 8 {
		r.fail(errCut)
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errCut)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// uvarint reads a number that is at most so much.
func (r *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	switch {
	case n <= 0:
		r.fail(errCut)
		return 0
	case v > most:
		r.fail(fmt.Errorf("a number of %d, and at most %d is allowed", v, most))
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) time() int64 {
	v := r.varint()
	if v < 0 || v > timeMax {
		r.fail(fmt.Errorf("a time of %d milliseconds", v))
		return 0
	}
	return v
}

func (r *reader) reason() (Reason, string) {
	reason := Reason(r.u8())
	if reason >= reasons {
		r.fail(fmt.Errorf("a reason of kind %d", reason))
		return 0, ""
	}
	n := int(r.uvarint(core.SettleReasonBytesMax))
	if n > len(r.b) {
		r.fail(errCut)
		return 0, ""
	}
	text := string(r.b[:n])
	r.b = r.b[n:]
	return reason, text
}

// Parse takes a body apart; the ops are appended to those given.
func Parse(body []byte, ops []Op) (Head, []Op, error) {
	r := reader{b: body}
	h := Head{Owner: r.varint(), Time: r.varint()}
	behind := int64(0)
	for len(r.b) > 0 {
		op := Op{Kind: OpKind(r.u8())}
		delta := r.varint()
		op.Base = behind + delta
		op.Next = op.Base + int64(r.uvarint(math.MaxInt64))
		switch op.Kind {
		case Begin:
			op.Identity = r.u64()
		case Lease:
			op.Attempts = uint16(r.uvarint(AttemptsMax))
		case Settle:
		case Retry:
			op.Attempts = uint16(r.uvarint(AttemptsMax))
			op.Time = r.time()
		case Die, Bury:
			op.Reason, op.Text = r.reason()
		default:
			r.fail(fmt.Errorf("an op of kind %d, which this build does not read", op.Kind))
		}
		if op.Base < 0 || op.Next < op.Base {
			r.fail(fmt.Errorf("an op for records %d up to %d", op.Base, op.Next))
		}
		if r.err == nil {
			ops, behind = append(ops, op), op.Next
		}
	}
	if r.err != nil {
		return Head{}, ops[:0], fmt.Errorf("queue entry of %d bytes: %w", len(body), r.err)
	}
	return h, ops, nil
}
