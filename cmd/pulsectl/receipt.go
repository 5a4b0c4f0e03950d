package main

import (
	"fmt"
	"sync/atomic"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// receipts prints what became of the messages, in the order of the input.
type receipts struct {
	session *session
	queue   chan *receipt
	bad     atomic.Bool
	ended   chan struct{}

	stored     int
	partitions map[uint32]struct{}
	firstErr   error
	failures   int
}

// receipt waits for the result of one message.
type receipt struct {
	line   int
	result pulsemq.Result
	err    error
	ready  chan struct{}
	owner  *receipts
}

// receiptJSON is a message in JSON output.
type receiptJSON struct {
	Topic      string `json:"topic"`
	Partition  uint32 `json:"partition"`
	Offset     int64  `json:"offset"`
	Timestamp  int64  `json:"timestamp"`
	Durability string `json:"durability"`
}

func newReceipts(s *session) *receipts {
	p := &receipts{session: s, queue: make(chan *receipt, sentWaitingMax), ended: make(chan struct{}), partitions: map[uint32]struct{}{}}
	go p.print()
	return p
}

// expect announces the message of a line; it waits while too many results are outstanding.
func (p *receipts) expect(line int) *receipt {
	r := &receipt{line: line, ready: make(chan struct{}), owner: p}
	p.queue <- r
	return r
}

// done is the message's result.
func (r *receipt) done(result pulsemq.Result, err error) {
	r.result, r.err = result, err
	if err != nil {
		r.owner.bad.Store(true)
	}
	close(r.ready)
}

// failed reports whether a message failed, so that no more are sent.
func (p *receipts) failed() bool { return p.bad.Load() }

func (p *receipts) print() {
	defer close(p.ended)
	lines := newJSONLines(p.session.out)
	var writeErr error
	for r := range p.queue {
		select {
		case <-r.ready:
		default: // nothing more to print for now
			writeErr = firstError(writeErr, lines.flush())
			<-r.ready
		}
		if r.err != nil {
			if p.failures++; p.firstErr == nil {
				p.firstErr = fmt.Errorf("line %d: %w", r.line, r.err)
			}
			continue
		}
		p.stored++
		p.partitions[r.result.Partition] = struct{}{}
		if p.session.output == outputJSON && writeErr == nil {
			writeErr = lines.print(receiptJSON{r.result.Topic, r.result.Partition, r.result.Offset, r.result.Timestamp.UnixMilli(), r.result.Durability.String()})
		}
	}
	if p.firstErr == nil {
		p.firstErr = firstError(writeErr, lines.flush())
	}
}

// finish waits for all results and sums them up; every message has its result by then.
func (p *receipts) finish() error {
	close(p.queue)
	<-p.ended
	if p.session.output == outputTable {
		fmt.Fprintf(p.session.out, "%s stored in %s\n", counted(p.stored, "message"), counted(len(p.partitions), "partition"))
	}
	if p.firstErr != nil && p.failures > 1 {
		return fmt.Errorf("%w (%d messages failed, %d are stored)", p.firstErr, p.failures, p.stored)
	}
	return p.firstErr
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
