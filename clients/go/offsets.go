package pulsemq

import (
	"context"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// ListOffsets finds an offset in each of the partitions, or in all of them when none is named. A partition that cannot
// be asked has its Err set; the error returned is about the topic or the request as a whole.
func (a *Admin) ListOffsets(ctx context.Context, topic string, spec OffsetSpec, partitions ...uint32) ([]PartitionOffset, error) {
	return listOffsets(ctx, a.client.cluster, cluster.RoleProduce, topic, spec, partitions)
}

// listOffsets asks each leader once for all of its partitions, and those that have moved once more.
func listOffsets(ctx context.Context, c *cluster.Cluster, role cluster.Role, topic string, spec OffsetSpec, partitions []uint32) ([]PartitionOffset, error) {
	t, err := c.Refresh(ctx, topic)
	if err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		for i := range t.Partitions {
			partitions = append(partitions, uint32(i))
		}
	}
	results := make([]PartitionOffset, len(partitions))
	ask := make([]int, len(partitions)) // places in results
	for i, p := range partitions {
		if int(p) >= len(t.Partitions) {
			return nil, partitionError(topic, p, len(t.Partitions))
		}
		results[i].Partition, ask[i] = p, i
	}
	for round := range 2 {
		if round > 0 {
			if t, err = c.Refresh(ctx, topic); err != nil {
				return nil, err
			}
		}
		listOffsetsOnce(ctx, c, role, t, spec, results, ask)
		var again []int
		for _, i := range ask {
			if results[i].Err != nil && staleMetadata(results[i].Err) {
				again = append(again, i)
			}
		}
		if ask = again; len(ask) == 0 {
			break
		}
	}
	return results, nil
}

// listOffsetsOnce fills in the results at the places of ask, all leaders at the same time.
func listOffsetsOnce(ctx context.Context, c *cluster.Cluster, role cluster.Role, t *cluster.Topic, spec OffsetSpec, results []PartitionOffset, ask []int) {
	byLeader := map[uint32][]int{}
	for _, i := range ask {
		results[i] = PartitionOffset{Partition: results[i].Partition, Offset: -1, LeaderEpoch: -1}
		number := int(results[i].Partition)
		switch {
		case number >= len(t.Partitions):
			results[i].Err = partitionError(t.Name, results[i].Partition, len(t.Partitions))
		case t.Partitions[number].Leader == 0:
			results[i].Err = ErrPartitionUnavailable.Errorf("topic %q partition %d has no leader now", t.Name, number)
		default:
			leader := t.Partitions[number].Leader
			byLeader[leader] = append(byLeader[leader], i)
		}
	}
	var leaders sync.WaitGroup
	for leader, places := range byLeader {
		leaders.Go(func() {
			request := &proto.ListOffsetsRequest{}
			for _, i := range places {
				number := results[i].Partition
				request.Items = append(request.Items, proto.ListOffsetsItem{TopicID: t.ID, Partition: number,
					LeaderEpoch: t.Partitions[number].LeaderEpoch, Kind: spec.kind, TimestampMs: spec.ms})
			}
			answer, err := listOffsetsOf(ctx, c.Link(role, leader), request)
			for n, i := range places {
				if err != nil {
					results[i].Err = err
					continue
				}
				found := &answer.Items[n]
				results[i].Err = found.Error.Err()
				if results[i].Err == nil {
					results[i].Offset, results[i].LeaderEpoch = found.Offset, found.LeaderEpoch
					if found.TimestampMs >= 0 {
						results[i].Timestamp = time.UnixMilli(found.TimestampMs)
					}
				}
			}
		})
	}
	leaders.Wait()
}

func listOffsetsOf(ctx context.Context, l *cluster.Link, request *proto.ListOffsetsRequest) (*proto.ListOffsetsResponse, error) {
	live, err := l.Get(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := conn.Call[proto.ListOffsetsResponse](ctx, live, request)
	if err == nil && len(answer.Items) != len(request.Items) {
		err = ErrInternal.Errorf("the broker answered %d of %d offsets", len(answer.Items), len(request.Items))
	}
	return answer, err
}
