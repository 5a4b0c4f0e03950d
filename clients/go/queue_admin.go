package pulsemq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// QueueState says where a record of a queue group stands.
type QueueState = proto.QueueRecordState

// The states of records.
const (
	QueueAvailable = proto.QueueRecordStateAvailable
	QueueLeased    = proto.QueueRecordStateLeased
	QueueDelayed   = proto.QueueRecordStateDelayed
	QueueDying     = proto.QueueRecordStateDying // on its way to the dead-letter topic
	QueueDead      = proto.QueueRecordStateDead  // its deliveries are used up, or it was rejected, and there is no dead-letter topic
)

// QueuePartition is how a queue group stands in a partition. Counts are of records.
type QueuePartition struct {
	Topic         string // empty when the topic's name could not be found out
	TopicID       TopicID
	Partition     uint32
	LowOffset     int64 // everything below is settled
	HighOffset    int64 // nothing from here on has been leased
	HighWatermark int64
	Available     uint64
	Leased        uint64
	Delayed       uint64
	Dying         uint64
	Dead          uint64
	Window        uint64 // between the low and the high offset
	WindowMax     uint64 // then nothing is leased until the oldest is settled
	Blockers      []QueueBlocker
	Err           error
}

// QueueBlocker is one of the oldest records that are not settled.
type QueueBlocker struct {
	Offset   int64
	Attempt  int
	State    QueueState
	MemberID string    // who has it leased; empty when nobody has
	Until    time.Time // end of its lease or delay; zero for neither
	Reason   string
}

// DescribeQueue tells how a queue group stands in every partition that it has begun in, by topic and number.
func (a *Admin) DescribeQueue(ctx context.Context, group string) ([]QueuePartition, error) {
	names, leaders, err := a.leaders(ctx)
	if err != nil {
		return nil, err
	}
	var all []QueuePartition
	for node := range leaders {
		answer, err := askNode[proto.DescribeQueueResponse](ctx, a, node, &proto.DescribeQueueRequest{Group: group, All: true})
		if err != nil {
			return nil, err
		}
		for i := range answer.Items {
			all = append(all, queuePartition(&answer.Items[i], names))
		}
	}
	slices.SortFunc(all, func(a, b QueuePartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all, nil
}

func queuePartition(r *proto.QueuePartition, names map[TopicID]string) QueuePartition {
	p := QueuePartition{
		Topic: names[r.TopicID], TopicID: r.TopicID, Partition: r.Partition, LowOffset: r.LowOffset, HighOffset: r.HighOffset, HighWatermark: r.HighWatermark,
		Available: r.Available, Leased: r.Leased, Delayed: r.Delayed, Dying: r.Dying, Dead: r.Dead, Window: r.WindowRecords, WindowMax: r.WindowRecordsMax,
		Err: r.Error.Err(),
	}
	for _, b := range r.Blockers {
		one := QueueBlocker{Offset: b.Offset, Attempt: int(b.Attempt), State: b.State, MemberID: b.MemberID, Reason: b.Reason}
		if b.UntilMs >= 0 {
			one.Until = time.UnixMilli(b.UntilMs)
		}
		p.Blockers = append(p.Blockers, one)
	}
	return p
}

// DiscardDead takes dead records of a partition out, from base up to but not including next; others stay as they are. It
// returns how many it were.
func (a *Admin) DiscardDead(ctx context.Context, group, topic string, partition uint32, base, next int64) (int, error) {
	if base < 0 || next <= base {
		return 0, ErrInvalidRequest.Errorf("offsets %d up to %d: none are between", base, next)
	}
	for again := true; ; again = false {
		n, err := a.discardDead(ctx, group, topic, partition, base, next)
		if err == nil || !again || !staleMetadata(err) && !errors.Is(err, ErrDisconnected) {
			return n, err
		}
		if _, err := a.client.cluster.Refresh(ctx, topic); err != nil {
			return 0, err
		}
	}
}

func (a *Admin) discardDead(ctx context.Context, group, topic string, partition uint32, base, next int64) (int, error) {
	t, err := a.client.cluster.Topic(ctx, topic)
	if err != nil {
		return 0, err
	}
	if int(partition) >= len(t.Partitions) {
		return 0, partitionError(topic, partition, len(t.Partitions))
	}
	live, err := a.client.cluster.Link(cluster.RoleProduce, t.Partitions[partition].Leader).Get(ctx)
	if err != nil {
		return 0, err
	}
	answer, err := conn.Call[proto.SettleResponse](ctx, live, &proto.SettleRequest{
		Group: group, TopicID: t.ID, Partition: partition, Ranges: []proto.SettledRange{{BaseOffset: base, NextOffset: next, Outcome: proto.SettlementDiscard}},
	})
	if err != nil {
		return 0, err
	}
	if len(answer.Ranges) != 1 {
		return 0, fmt.Errorf("pulsemq: %w", ErrInternal.Errorf("the broker answered %d of 1 range", len(answer.Ranges)))
	}
	return int(answer.Ranges[0].Settled), answer.Ranges[0].Error.Err()
}
