package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/link"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// FetchBytesDefault is what one FETCH asks for when nothing else is said.
	FetchBytesDefault = 4 << 20

	// fetchWaitMs is how long the broker holds a FETCH of a fetcher that follows the log.
	fetchWaitMs = 500
)

// Cursor is how far a partition has been read.
type Cursor struct {
	Partition
	Next int64 // offset of the next record
	End  int64 // where a fetcher that does not follow stops
	due  int64 // when the FETCH that is unanswered was due to be sent
}

// FetcherSpec is what one fetcher does.
type FetcherSpec struct {
	Connection
	Cursors  []*Cursor
	InFlight int
	Bytes    int     // that one FETCH asks for; 0 takes the default
	Follow   bool    // go on at the end of the log until told to stop
	Rate     float64 // records per second; 0 flat out
	Reader   *Reader
}

// Fetcher reads partitions over one connection, several at a time and each with one FETCH. It has one goroutine.
type Fetcher struct {
	spec      FetcherSpec
	tally     *Tally
	ready     []int // cursors without a FETCH, the next one first
	inFlight  int
	partial   map[int]bool // cursors whose answer has begun and not ended
	checked   time.Time
	payload   int
	sequence  uint64
	allowance Allowance
	heard     int64 // when the last answer came
}

// NewFetcher makes a fetcher; Run runs it.
func NewFetcher(spec FetcherSpec) *Fetcher {
	if spec.Bytes == 0 {
		spec.Bytes = FetchBytesDefault
	}
	f := &Fetcher{spec: spec, tally: NewTally(), payload: new(proto.FetchRequest).Size(), partial: make(map[int]bool)}
	for i, c := range spec.Cursors {
		if spec.Follow || c.Next < c.End {
			f.ready = append(f.ready, i)
		}
	}
	return f
}

// Tally is what the fetcher has done. Its times are those of requests, from FETCH to the last frame of the answer.
func (f *Fetcher) Tally() *Tally { return f.tally }

// Run reads until every partition is at its end, or, following, until ctx ends; the error is then that of ctx.
func (f *Fetcher) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = f.spec.Link.SetReadDeadline(time.Unix(1, 0)) })()
	f.heard = f.spec.Clock()
	f.allowance = NewAllowance(f.heard, f.spec.Rate)
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		wait := f.send()
		if err := f.spec.Link.Flush(); err != nil {
			return err
		}
		if f.inFlight == 0 {
			if wait == 0 {
				return nil
			}
			time.Sleep(min(wait, time.Duration(paceSleepMax)))
			continue
		}
		if wait > 0 {
			// The next request is due before an answer may come.
			f.checked = time.Time{}
			if err := f.spec.Link.SetReadDeadline(time.Now().Add(wait)); err != nil {
				return err
			}
		} else if time.Since(f.checked) > silenceCheck {
			f.checked = time.Now()
			if err := f.spec.Link.SetReadDeadline(f.checked.Add(silenceMax)); err != nil {
				return err
			}
			continue // ctx may have ended before the deadline was set
		}
		if err := f.spec.Link.Fill(); err != nil {
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, os.ErrDeadlineExceeded) && wait > 0:
				if silence := f.spec.Clock() - f.heard; silence < int64(silenceMax) {
					continue
				}
				fallthrough
			case errors.Is(err, os.ErrDeadlineExceeded):
				return fmt.Errorf("%d FETCH requests have had no answer for %v", f.inFlight, silenceMax)
			}
			return err
		}
		for {
			frame, ok, err := f.spec.Link.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := f.handle(ctx, &frame); err != nil {
				return err
			}
		}
	}
}

// send asks for as many partitions as are ready, due and have room, and returns how long it is until the next one is due
// when that is all that it waits for. A fetcher that follows asks for all: one that is not asked for would not be read
// while the others wait at the broker.
func (f *Fetcher) send() (wait time.Duration) {
	for len(f.ready) > 0 && (f.spec.Follow || f.inFlight < f.spec.InFlight) && f.spec.Link.Admits(f.payload) {
		now := f.spec.Clock()
		due := f.allowance.Due(now, f.tally, f.inFlight)
		if due > now {
			return time.Duration(due - now)
		}
		index := f.ready[0]
		f.ready = f.ready[:copy(f.ready, f.ready[1:])]
		c := f.spec.Cursors[index]
		request := proto.FetchRequest{TopicID: f.spec.TopicID, Partition: c.Number, LeaderEpoch: c.LeaderEpoch, Offset: c.Next,
			LastEpoch: -1, MinBytes: 1, MaxBytes: uint32(f.spec.Bytes)}
		if f.spec.Follow {
			request.MaxWaitMs = fetchWaitMs
		}
		f.sequence++
		header := proto.FrameHeader{Version: proto.CommandFetch.Version(), Command: proto.CommandFetch, RequestID: f.sequence<<slotBits | uint64(index)}
		out := proto.AppendFrameHeader(f.spec.Link.Out(), header, f.payload)
		f.spec.Link.SetOut(request.AppendTo(out))
		f.spec.Link.Take(f.payload)
		f.inFlight++
		c.due = due
	}
	return 0
}

// handle takes one frame of an answer.
func (f *Fetcher) handle(ctx context.Context, frame *link.Frame) error {
	index := int(frame.RequestID & slotMask)
	if index >= len(f.spec.Cursors) || frame.RequestID>>slotBits == 0 {
		return fmt.Errorf("the broker answers request %d, which is not waiting for an answer", frame.RequestID)
	}
	c := f.spec.Cursors[index]
	if frame.Command == proto.CommandError {
		f.answered(index)
		return f.refused(ctx, link.DecodeError(frame.Payload), index)
	}
	var answer proto.FetchResponse
	if frame.Command != proto.CommandFetch || !frame.Answer {
		return fmt.Errorf("FETCH is answered with %v", frame.Command)
	}
	if err := answer.Decode(frame.Payload); err != nil {
		return err
	}
	now := f.spec.Clock()
	f.heard = now
	records, batches, err := f.spec.Reader.Read(c, answer.Batches, now)
	if err != nil {
		return fmt.Errorf("partition %d: %w", c.Number, err)
	}
	f.tally.Records.Add(records)
	f.tally.Bytes += int64(len(answer.Batches))
	f.tally.Batches += batches
	if records > 0 {
		f.tally.Last = now
	}
	if answer.More {
		f.partial[index] = true
		return nil
	}
	// A FETCH that found nothing measures how long the broker was told to wait.
	if records > 0 || f.partial[index] {
		Record(f.tally.Latency, now-c.due)
		f.tally.Requests++
	}
	f.answered(index)
	if f.spec.Follow || c.Next < c.End && c.Next < answer.HighWatermark {
		f.ready = append(f.ready, index)
	}
	return nil
}

func (f *Fetcher) answered(index int) {
	delete(f.partial, index)
	f.inFlight--
	f.spec.Link.GiveBack(f.payload)
}

// refused takes a refusal. Damaged records are what a run wants to know of, and reading goes on behind them.
func (f *Fetcher) refused(ctx context.Context, err error, index int) error {
	var refusal *proto.Error
	if !errors.As(err, &refusal) {
		return err
	}
	c := f.spec.Cursors[index]
	f.tally.Refuse(refusal.Code)
	switch {
	case refusal.Code == proto.CodeCorruptRecord && refusal.Damage != nil && refusal.Damage.NextOffset > c.Next:
		f.spec.Reader.Account.Damage(ledger.Place{Partition: c.Number, BaseOffset: c.Next}, refusal.Error())
		c.Next = refusal.Damage.NextOffset
	case refusal.Code == proto.CodeOffsetOutOfRange && refusal.Offsets != nil && refusal.Offsets.Earliest > c.Next:
		// Retention was quicker than this run.
		f.spec.Reader.Account.Hole(ledger.Place{Partition: c.Number, BaseOffset: refusal.Offsets.Earliest}, refusal.Offsets.Earliest-c.Next)
		c.Next = refusal.Offsets.Earliest
	case refusal.Retriable():
		wait := max(time.Duration(refusal.WaitMs)*time.Millisecond, overloadedWaitMin)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	default:
		return fmt.Errorf("partition %d at offset %d: %w", c.Number, c.Next, refusal)
	}
	f.ready = append(f.ready, index)
	return nil
}

// Close closes the connection.
func (f *Fetcher) Close() error { return f.spec.Link.Close() }
