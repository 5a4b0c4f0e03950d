package shard

import (
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

// joinQueue makes a member of a queue group.
func (n *node) joinQueue(group, member string, topics ...string) (*proto.JoinGroupResponse, *proto.Error) {
	n.t.Helper()
	a := n.one(n.groupRequest(group, &proto.JoinGroupRequest{
		Group: group, Kind: proto.GroupKindQueue, MemberID: member, SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 20_000, Topics: topics,
	}))
	if a.Err != nil {
		return nil, a.Err
	}
	return a.Body.(*proto.JoinGroupResponse), nil
}

// Every member of a queue group has every partition, under the epoch of its membership, and who joins later takes nothing.
func TestQueueGroupIsJoined(t *testing.T) {
	n := newNode(t, 1)
	n.create("orders", 3)
	n.groups()
	a, err := n.joinQueue("q", "a", "orders")
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.joinQueue("q", "b", "orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*proto.JoinGroupResponse{a, b} {
		if len(m.Assignment.Topics) != 1 || len(m.Assignment.Topics[0].Partitions) != 3 || !m.Assignment.Settled {
			t.Fatalf("assigned: %+v", m.Assignment)
		}
		for _, p := range m.Assignment.Topics[0].Partitions {
			if p.OwnerEpoch != m.MemberEpoch {
				t.Errorf("partition %d is assigned under epoch %d, want that of the membership, %d", p.Partition, p.OwnerEpoch, m.MemberEpoch)
			}
		}
	}
	if a.MemberEpoch >= b.MemberEpoch {
		t.Errorf("epochs %d and %d do not rise", a.MemberEpoch, b.MemberEpoch)
	}
	beat, err := n.beat("q", "a", a.MemberEpoch, a.Assignment.Version)
	if err != nil || beat.Assignment != nil {
		t.Errorf("the first member is told of %+v, %v", beat, err)
	}
	d := n.one(n.groupRequest("q", &proto.DescribeGroupRequest{Group: "q"})).Body.(*proto.DescribeGroupResponse)
	if d.Kind != proto.GroupKindQueue || d.State != proto.GroupStateSettled || len(d.Members) != 2 {
		t.Errorf("described as %+v", d)
	}
	a2 := n.one(n.groupRequest("q", &proto.JoinGroupRequest{Group: "q", MemberID: "c", SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 20_000, Topics: []string{"orders"}}))
	wantCode(t, a2.Err, proto.CodeGroupKindMismatch)
	n.join("s", "a", "", "orders")
	_, err = n.joinQueue("s", "b", "orders")
	wantCode(t, err, proto.CodeGroupKindMismatch)
}
