package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/link"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// silenceMax is how long a broker may leave requests unanswered before a run gives up.
	silenceMax = 30 * time.Second

	// silenceCheck is how often the deadline for that is moved: not for every read, because that costs a timer each.
	silenceCheck = time.Second

	// overloadedWaitMin is the pause after OVERLOADED when the broker does not say how long.
	overloadedWaitMin = 5 * time.Millisecond

	// Request ids carry the counter of the mark, above the slot that waits for the answer.
	slotBits = 16
	slotMask = 1<<slotBits - 1
	slotNone = slotMask // acks none: no slot waits

	// InFlightMax is the most requests of one connection.
	InFlightMax = 1 << 14
)

// Connection is what a sender and a fetcher are given to work with.
type Connection struct {
	Link    *link.Link
	TopicID [16]byte
	Share   Share
	Clock   Clock
}

// SenderSpec is what one sender does.
type SenderSpec struct {
	Connection
	Template *payload.Template
	Stream   *ledger.Stream
	Producer int // its number among the senders; where it begins among the partitions depends on it
	Acks     proto.Acks
	InFlight int
	Schedule Schedule
	Budget   *Budget // nil: until the schedule ends
}

// slot waits for the answer to one request.
type slot struct {
	counter   uint64
	partition uint32
	due       int64
	used      bool
}

// Sender sends batches over one connection.
//
// Invariant: inFlight is the number of slots in use, and free holds the others.
type Sender struct {
	spec  SenderSpec
	tally *Tally
	later func(wait time.Duration, do func()) // time.AfterFunc, but for tests whose clock stands still

	mu         sync.Mutex // around everything below, and the link but for Fill
	slots      []slot
	free       []uint16
	inFlight   int
	turn       int // of the partitions
	paused     int64
	exhausted  bool // the budget is used up
	barrier    uint64
	passed     bool // the barrier's answer has come
	deadlineAt int64
	answer     proto.ProduceResponse
	request    proto.ProduceRequest
	payload    int   // bytes of each request
	stamp      int64 // of the records of one send, in milliseconds: to ask for the time of each costs more than to build its head
	err        error
}

// NewSender makes a sender; Run runs it.
func NewSender(spec SenderSpec) *Sender {
	s := &Sender{spec: spec, tally: NewTally(), slots: make([]slot, spec.InFlight), turn: spec.Producer}
	s.later = func(wait time.Duration, do func()) { time.AfterFunc(wait, do) }
	for i := spec.InFlight - 1; i >= 0; i-- {
		s.free = append(s.free, uint16(i))
	}
	s.request = proto.ProduceRequest{TopicID: spec.TopicID, Acks: spec.Acks}
	s.payload = s.request.HeadSize() + spec.Template.BatchBytes()
	return s
}

// Tally is what the sender has done.
func (s *Sender) Tally() *Tally { return s.tally }

// Run sends until the schedule or the budget ends and everything is answered.
func (s *Sender) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { s.fail(context.Cause(ctx)) })()
	end := time.AfterFunc(time.Duration(s.spec.Schedule.end-s.spec.Clock()), s.tend)
	defer end.Stop()

	var pacing sync.WaitGroup
	defer pacing.Wait()
	switch {
	case s.spec.Schedule.interval > 0:
		pacing.Go(func() { pace(s) })
	case s.spec.Acks == proto.AcksNone:
		pacing.Go(func() { pump(s) })
	}
	s.tend()
	for {
		if done, err := s.settle(); done || err != nil {
			return err
		}
		err := s.spec.Link.Fill()
		if err := s.take(err); err != nil {
			return err
		}
	}
}

// fail ends the run with an error.
func (s *Sender) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.wake()
}

// wake makes a Fill that waits return. When it turns out that there is more to wait for, settle sets the deadline anew.
func (s *Sender) wake() {
	s.deadlineAt = 0
	_ = s.spec.Link.SetReadDeadline(time.Unix(1, 0))
}

// settle reports whether the sender is done. When it is not it moves the deadline for the next answer.
func (s *Sender) settle() (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.spec.Clock()
	if s.err != nil || s.finished(now) {
		return true, s.err
	}
	if now-s.deadlineAt > int64(silenceCheck) || s.deadlineAt == 0 {
		s.deadlineAt = now
		return false, s.spec.Link.SetReadDeadline(time.Now().Add(silenceMax))
	}
	return false, nil
}

// over reports whether nothing more will be sent.
func (s *Sender) over(now int64) bool { return s.exhausted || s.spec.Schedule.Over(now) }

// finished reports whether nothing more will be sent and nothing more will be answered.
func (s *Sender) finished(now int64) bool {
	if !s.over(now) || s.inFlight > 0 {
		return false
	}
	return s.spec.Acks != proto.AcksNone || s.passed
}

// tend sends what is due. It is for whoever is not in Run's loop, which therefore may have to be woken.
func (s *Sender) tend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.spec.Clock()
	if err := s.send(now); err != nil && s.err == nil {
		s.err = err
	}
	if s.err != nil || s.finished(now) {
		s.wake()
	}
}

// take handles what Fill has read, or its error, and sends what there is room for now.
func (s *Sender) take(readErr error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.spec.Clock()
	if readErr != nil {
		switch {
		case s.err != nil:
			return s.err
		case !errors.Is(readErr, os.ErrDeadlineExceeded):
			return fmt.Errorf("%d requests were unanswered: %w", s.inFlight, readErr)
		case s.inFlight > 0 || s.barrier != 0 && !s.passed:
			return fmt.Errorf("%d requests have had no answer for %v", s.inFlight, silenceMax)
		}
		s.deadlineAt = 0
		return nil
	}
	for {
		f, ok, err := s.spec.Link.Next()
		if err != nil {
			return err
		}
		if !ok {
			return s.send(now)
		}
		if err := s.handle(&f, now); err != nil {
			return err
		}
	}
}

// send sends what is due and has room, and the barrier once there is nothing more.
func (s *Sender) send(now int64) error {
	s.stamp = time.Now().UnixMilli()
	for range s.slots {
		if !s.sendNext(now) {
			break
		}
	}
	if s.spec.Acks == proto.AcksNone && s.barrier == 0 && s.over(now) {
		s.sendBarrier()
	}
	return s.spec.Link.Flush()
}

// sendNext gathers one request; false when none is due, or there is no room for it.
func (s *Sender) sendNext(now int64) bool {
	if s.err != nil || now < s.paused || s.exhausted {
		return false
	}
	due, ready := s.spec.Schedule.Next(now)
	if !ready {
		return false
	}
	answered := s.spec.Acks != proto.AcksNone
	if answered && (len(s.free) == 0 || !s.spec.Link.Admits(s.payload)) {
		return false
	}
	if !s.spec.Budget.Take() {
		s.exhausted = true
		return false
	}
	s.spec.Schedule.Sent()
	partition := &s.spec.Share.Partitions[s.turn%len(s.spec.Share.Partitions)]
	s.turn++
	counter := s.spec.Stream.Send()
	index := uint16(slotNone)
	if answered {
		index = s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
		s.slots[index] = slot{counter: counter, partition: partition.Number, due: due, used: true}
		s.inFlight++
		s.spec.Link.Take(s.payload)
	} else {
		s.spec.Stream.Expect(counter)
		s.tally.Records.Add(int64(s.spec.Template.Spec().Records))
		s.tally.Requests++
		s.tally.Bytes += int64(s.spec.Template.BatchBytes())
	}
	s.appendRequest((counter+1)<<slotBits|uint64(index), partition, payload.Mark{Producer: uint32(s.spec.Producer), Counter: counter, Sent: due})
	return true
}

// appendRequest gathers the frame.
func (s *Sender) appendRequest(id uint64, partition *Partition, mark payload.Mark) {
	s.request.Partition, s.request.LeaderEpoch = partition.Number, partition.LeaderEpoch
	header := proto.FrameHeader{Version: proto.CommandProduce.Version(), Command: proto.CommandProduce, RequestID: id}
	out := proto.AppendFrameHeader(s.spec.Link.Out(), header, s.payload)
	out = s.request.AppendHead(out)
	out = s.spec.Template.AppendHead(out, mark, s.stamp)
	s.spec.Link.SetOut(out)
	s.spec.Link.Tail(s.spec.Template.Tail())
}

// sendBarrier asks something that the broker can only answer once it has dealt with every request before it: an offset
// of each partition.
func (s *Sender) sendBarrier() {
	var request proto.ListOffsetsRequest
	for _, p := range s.spec.Share.Partitions {
		request.Items = append(request.Items, proto.ListOffsetsItem{TopicID: s.spec.TopicID, Partition: p.Number, LeaderEpoch: -1, Kind: proto.OffsetKindLatest})
	}
	s.barrier = s.spec.Link.NextID()
	s.spec.Link.Append(s.barrier, &request)
}

// handle takes an answer.
func (s *Sender) handle(f *link.Frame, now int64) error {
	if s.barrier != 0 && f.RequestID == s.barrier {
		s.passed, s.tally.Last = true, now
		return nil
	}
	index := f.RequestID & slotMask
	counter := f.RequestID>>slotBits - 1
	if index == slotNone && s.spec.Acks == proto.AcksNone && f.Command == proto.CommandError {
		s.spec.Stream.Refuse(counter)
		s.tally.Records.Add(-int64(s.spec.Template.Spec().Records))
		s.tally.Requests--
		s.tally.Bytes -= int64(s.spec.Template.BatchBytes())
		return s.refused(f, now)
	}
	if index >= uint64(len(s.slots)) || !s.slots[index].used || s.slots[index].counter != counter {
		return fmt.Errorf("the broker answers request %d, which is not waiting for an answer", f.RequestID)
	}
	waiting := &s.slots[index]
	waiting.used = false
	s.free = append(s.free, uint16(index))
	s.inFlight--
	s.spec.Link.GiveBack(s.payload)
	if f.Command == proto.CommandError {
		return s.refused(f, now)
	}
	if f.Command != proto.CommandProduce || !f.Answer {
		return fmt.Errorf("PRODUCE is answered with %v", f.Command)
	}
	if err := s.answer.Decode(f.Payload); err != nil {
		return err
	}
	s.spec.Stream.Ack(counter, ledger.Place{Partition: waiting.partition, BaseOffset: s.answer.BaseOffset})
	Record(s.tally.Latency, now-waiting.due)
	s.tally.Records.Add(int64(s.spec.Template.Spec().Records))
	s.tally.Requests++
	s.tally.Bytes += int64(s.spec.Template.BatchBytes())
	s.tally.Durability = min(s.tally.Durability, s.answer.Durability)
	s.tally.Last = now
	return nil
}

// refused takes a refusal. One that may go away is counted and another batch takes the place; with any other the whole
// run makes no sense.
func (s *Sender) refused(f *link.Frame, now int64) error {
	err := link.DecodeError(f.Payload)
	var refusal *proto.Error
	if !errors.As(err, &refusal) {
		return err
	}
	s.tally.Refuse(refusal.Code)
	s.spec.Budget.Return()
	s.exhausted = false
	if !s.over(now) {
		s.barrier, s.passed = 0, false // what follows needs one of its own
	}
	if !refusal.Retriable() {
		return refusal
	}
	if now-max(s.tally.Last, s.spec.Schedule.start) > int64(silenceMax) && s.spec.Acks != proto.AcksNone {
		return fmt.Errorf("no batch has been accepted for %v: %w", silenceMax, refusal)
	}
	wait := max(time.Duration(refusal.WaitMs)*time.Millisecond, overloadedWaitMin)
	s.paused = now + int64(wait)
	s.later(wait, s.tend)
	return nil
}

// finish accounts for what was due and never sent: it has waited until now, and longer.
func (s *Sender) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exhausted || s.spec.Acks == proto.AcksNone {
		return
	}
	now := s.spec.Clock()
	s.spec.Schedule.Late(now, func(due int64) {
		s.tally.Unsent++
		Record(s.tally.Latency, now-due)
	})
}
