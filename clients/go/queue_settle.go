package pulsemq

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// settleRangesMax is how many ranges one SETTLE has at most, settleReasonBytesMax how long a reason is.
	settleRangesMax      = 1024
	settleReasonBytesMax = 1024
)

// settler sends the outcomes of one partition's messages: one SETTLE at a time, with all that have gathered since the
// last. Everything is guarded by the consumer's lock.
type settler struct {
	leasing  *leasing
	place    proto.TopicPartition
	waiting  []*Settling
	sent     []*Settling
	failures int
}

// settle puts an outcome on the list.
func (l *leasing) settle(tp proto.TopicPartition, s *Settling) {
	if l.ended {
		s.finish(ErrLeaseLost.Errorf("the subscription that leased it has ended"))
		return
	}
	t := l.settlers[tp]
	if t == nil {
		t = &settler{leasing: l, place: tp}
		l.settlers[tp] = t
	}
	if m := s.message; m != nil {
		switch {
		case s.outcome == proto.SettlementExtend:
			m.extended = true
		case m.extended: // looked for only where there can be one: many outcomes may wait
			t.outdo(m)
		}
	}
	t.waiting = append(t.waiting, s)
	t.send()
}

// outdo takes extensions of a message off the list that wait: it has an outcome now.
func (t *settler) outdo(m *QueueMessage) {
	t.waiting = slices.DeleteFunc(t.waiting, func(s *Settling) bool {
		if s.message != m {
			return false
		}
		s.finish(nil)
		return true
	})
}

// send sends what waits, as ranges, unless something is on its way.
func (t *settler) send() {
	l := t.leasing
	if len(t.sent) > 0 || len(t.waiting) == 0 || l.ended {
		return
	}
	slices.SortStableFunc(t.waiting, func(a, b *Settling) int {
		switch {
		case a.alone == b.alone:
			return cmp.Compare(a.base, b.base)
		case a.alone:
			return -1
		}
		return 1
	})
	most := settleRangesMax
	if t.waiting[0].alone {
		most = 1
	}
	m := &proto.SettleRequest{Group: l.consumer.group, MemberID: l.member, TopicID: t.place.TopicID, Partition: t.place.Partition}
	n := 0
	var again []*Settling // extended twice, or extended after another outcome: one range in a request speaks of a message
	for ; n < len(t.waiting); n++ {
		s := t.waiting[n]
		last := len(m.Ranges) - 1
		if last >= 0 && s.base < m.Ranges[last].NextOffset {
			again = append(again, s)
			continue
		}
		if last >= 0 && s.follows(&m.Ranges[last]) {
			m.Ranges[last].NextOffset = s.next
		} else if last+1 == most {
			break
		} else {
			m.Ranges = append(m.Ranges, proto.SettledRange{BaseOffset: s.base, NextOffset: s.next, Attempt: s.attempt, Outcome: s.outcome, DelayMs: s.delay, Reason: s.reason})
		}
		t.sent = append(t.sent, s)
	}
	t.waiting = append(again, t.waiting[n:]...)
	request := &conn.Request{Message: m, Keep: true}
	request.Done = func(payload []byte, err error) bool {
		t.answered(m, payload, err)
		return false
	}
	if err := l.conn.Start(request); err != nil {
		t.fail(err)
	}
}

// follows says whether an outcome can share a range.
func (s *Settling) follows(r *proto.SettledRange) bool {
	return s.base == r.NextOffset && s.attempt == r.Attempt && s.outcome == r.Outcome && s.delay == r.DelayMs && s.reason == r.Reason
}

// answered tells each outcome what became of it.
func (t *settler) answered(request *proto.SettleRequest, payload []byte, err error) {
	apart := len(request.Ranges) > 1 && (errors.Is(err, ErrInvalidTimeout) || errors.Is(err, ErrInvalidRequest))
	var response proto.SettleResponse
	if err == nil {
		err = response.Decode(payload)
	}
	if err == nil && len(response.Ranges) != len(request.Ranges) {
		err = ErrInternal.Errorf("the broker answered %d of %d ranges", len(response.Ranges), len(request.Ranges))
	}
	l := t.leasing
	q := l.consumer
	q.mu.Lock()
	defer q.mu.Unlock()
	sent := t.sent
	t.sent = nil
	switch {
	case err == nil:
		t.failures = 0
		i := 0 // both are in the order of their offsets
		for _, s := range sent {
			for s.base >= request.Ranges[i].NextOffset {
				i++
			}
			s.finish(response.Ranges[i].Error.Err())
		}
	case errors.Is(err, ErrOverloaded): // nothing was done
		t.failures++
		t.waiting = append(sent, t.waiting...)
		time.AfterFunc(groupRetry.After(t.failures), func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			t.send()
		})
		return
	case apart: // nothing was done because of one of them: only that one is to fail
		for _, s := range sent {
			s.alone = true
		}
		t.waiting = append(sent, t.waiting...)
	default:
		for _, s := range sent {
			s.finish(err)
		}
	}
	t.send()
	l.closeWhenDone()
}

// fail ends what waits and what is on its way.
func (t *settler) fail(err error) {
	all := append(t.sent, t.waiting...)
	t.sent, t.waiting = nil, nil
	for _, s := range all {
		s.finish(err)
	}
}
