package pulsemq

import (
	"context"
	"errors"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// The part of a QueueConsumer that runs in the background: membership, partitions that come and go, and leases that are
// extended.

// belong keeps the member in its group until Close.
func (q *QueueConsumer) belong() {
	for failures := 0; q.ctx.Err() == nil; {
		assignment, err := q.join()
		if err == nil {
			failures = 0
			err = q.live(assignment)
		}
		switch {
		case q.ctx.Err() != nil:
			return
		case memberOver(err):
			q.loseAll() // what was begun may still be settled: it is leased to the id that the member had
			continue
		case err != nil && !memberMayGoOn(err):
			q.loseAll()
			q.mu.Lock()
			q.fatal = err
			q.signal()
			q.mu.Unlock()
			return
		}
		failures++
		select {
		case <-q.ctx.Done():
		case <-time.After(groupRetry.After(failures)):
		}
	}
}

// join asks the coordinator to take the member in. An attempt that nobody answered may have been heard: the next one is
// under the same id, and Close lets it end, for who leaves has to know its epoch.
func (q *QueueConsumer) join() (*proto.GroupAssignment, error) {
	ctx, cancel := context.WithTimeout(q.joining, q.config.session)
	defer cancel()
	if q.joinID == "" {
		q.joinID = newMemberID()
	}
	id := q.joinID
	answer, err := askCoordinator[proto.JoinGroupResponse](ctx, q.client, q.group, q.config.joinRequest(q.group, GroupQueue, id))
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && q.ctx.Err() == nil {
			err = errors.Join(ErrRequestTimeout, err)
		}
		return nil, err
	}
	q.joinID = ""
	q.mu.Lock()
	q.memberID, q.epoch, q.joined = id, answer.MemberEpoch, true
	q.mu.Unlock()
	return &answer.Assignment, nil
}

// live sends signs of life and applies assignments until the membership is over.
func (q *QueueConsumer) live(first *proto.GroupAssignment) error {
	q.apply(first)
	applied, heard := first.Version, time.Now()
	for failures := 0; ; {
		answer, err := q.heartbeat(applied)
		switch {
		case q.ctx.Err() != nil:
			return q.ctx.Err()
		case err == nil:
			failures, heard = 0, time.Now()
			if a := answer.Assignment; a != nil {
				q.apply(a)
				applied = a.Version
			}
			continue
		case !memberMayGoOn(err) && !errors.Is(err, context.DeadlineExceeded):
			return err
		case time.Since(heard) > q.config.session:
			return ErrUnknownMember // it has been removed by now
		}
		failures++
		select {
		case <-time.After(groupRetry.After(failures)):
		case <-q.ctx.Done():
			return q.ctx.Err()
		}
	}
}

func (q *QueueConsumer) heartbeat(applied int64) (*proto.HeartbeatResponse, error) {
	wait := q.config.heartbeatWait()
	q.mu.Lock()
	request := &proto.HeartbeatRequest{Group: q.group, MemberID: q.memberID, InstanceID: q.config.instance, MemberEpoch: q.epoch, Applied: applied, WaitMs: uint32(wait.Milliseconds())}
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(q.ctx, wait+q.config.session/2)
	defer cancel()
	return askCoordinator[proto.HeartbeatResponse](ctx, q.client, q.group, request)
}

// apply leases from the partitions of an assignment, and from no others.
func (q *QueueConsumer) apply(a *proto.GroupAssignment) {
	q.mu.Lock()
	defer q.mu.Unlock()
	want := map[partKey]*queuePart{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			key := partKey{t.Name, p.Partition}
			want[key] = &queuePart{key: key, id: t.TopicID, owner: p.OwnerEpoch, start: -1}
		}
	}
	for key, p := range q.parts {
		if w := want[key]; w == nil || w.owner != p.owner || w.id != p.id {
			q.drop(p)
		}
	}
	for key, p := range want {
		if q.parts[key] == nil {
			q.parts[key] = p
		}
	}
	q.look()
}

// drop takes a partition off.
func (q *QueueConsumer) drop(p *queuePart) {
	delete(q.parts, p.key)
	if p.leasing != nil {
		p.leasing.unlease(p)
	}
}

// loseAll is for a member that was removed: what waits is given back, what was begun goes on.
func (q *QueueConsumer) loseAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.joined = false
	for _, p := range q.parts {
		q.drop(p)
	}
	for l := range q.all {
		l.retire()
	}
}

// leaseLasts notes how long leases last. It is called with the lock held.
func (q *QueueConsumer) leaseLasts(timeout time.Duration) {
	if q.timeout == 0 || timeout < q.timeout {
		q.timeout = timeout
		select {
		case q.beats <- struct{}{}:
		default:
		}
	}
}

// extend keeps leases from running out while messages are worked on. Those that wait here for half of their lease are
// given back: somebody else may have time.
func (q *QueueConsumer) extend() {
	for {
		q.mu.Lock()
		every := time.Hour
		if q.timeout > 0 {
			every = min(max(q.timeout/8, 10*time.Millisecond), time.Second)
		}
		q.mu.Unlock()
		select {
		case <-q.over.Done():
			return
		case <-q.beats:
		case <-time.After(every):
		}
		q.extendAll(time.Now())
	}
}

func (q *QueueConsumer) extendAll(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for l := range q.all {
		for m := range l.held {
			switch {
			case now.Before(m.extendAt) || m.lost != nil:
			case m.begun.IsZero():
				l.release(m)
			case now.Sub(m.begun) < q.config.handleMax:
				m.extendAt = now.Add(q.timeout / 2)
				l.settle(proto.TopicPartition{TopicID: l.topic(m), Partition: m.Partition},
					&Settling{consumer: q, message: m, base: m.Offset, next: m.Offset + 1, attempt: uint32(m.Attempt), outcome: proto.SettlementExtend})
			}
		}
	}
}
