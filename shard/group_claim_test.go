package shard

import (
	"fmt"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// knows is how many groups a partition keeps something of.
func (n *node) knows(id core.PartitionID) int {
	p := n.owner(id).partitions[id]
	if p.cursors.wishes != 0 {
		n.t.Errorf("%d wishes wait", p.cursors.wishes)
	}
	return p.cursors.table.Groups()
}

// A take-over or a seek that comes after its group was deleted leaves nothing behind, and the group does not begin there
// when it is made again.
func TestLateTakeOverLeavesNothing(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			n := newNode(t, shards)
			topic := n.create("orders", 4)
			n.groups()
			var epoch int64
			for i := range topic.Partitions {
				n.one(n.produceRequest(topic.Partitions[i].ID, batchSpec{records: 10, value: 5, producer: -1}))
			}
			for _, g := range []string{"g", "stays"} {
				a := n.join(g, "a", "", "orders")
				epoch = a.Assignment.Topics[0].Partitions[0].OwnerEpoch
				for i := range topic.Partitions {
					n.own(topic.Partitions[i].ID, g, epoch)
				}
				if g == "stays" {
					continue
				}
				for _, m := range []proto.Message{&proto.LeaveGroupRequest{Group: g, MemberID: "a", MemberEpoch: a.MemberEpoch}, &proto.DeleteGroupRequest{Group: g}} {
					if r := n.one(n.groupRequest(g, m)); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
			}
			for i := range topic.Partitions {
				id := topic.Partitions[i].ID
				n.own(id, "g", epoch)
				n.mustCursor(id, mail.Cursor{Deed: mail.CursorSeek, Group: "g", Owner: epoch + 1, Offset: 5})
				n.settle()
				if known := n.knows(id); known != 1 {
					t.Errorf("partition %d knows %d groups, and there is one", i, known)
				}
				if s := n.mustCursor(id, mail.Cursor{Group: "stays"}); s.Owner < 0 {
					t.Errorf("partition %d has forgotten a group that is there", i)
				}
			}
		})
	}
}

// What drops a claim of a group that is gone leaves a new group of its name alone, also one that takes over at the moment.
func TestLateClaimLeavesANewGroupAlone(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("orders", 1).Partitions[0].ID
	m := n.machines[0]
	forget := func(owner int64) {
		m.Letter(&mail.Letter{Kind: mail.LetterForget, From: 0, Group: "g", Time: forgetAll, Owner: owner})
	}
	n.own(id, "g", 4)
	own := mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: 9}}
	n.send(&own) // it is gathered
	forget(4)
	n.settle()
	n.answers()
	if s := n.mustCursor(id, mail.Cursor{Group: "g"}); s.Owner != 9 {
		t.Fatalf("the new owner was forgotten: %+v", s)
	}
	forget(4)
	n.settle()
	if s := n.mustCursor(id, mail.Cursor{Group: "g"}); s.Owner != 9 {
		t.Fatalf("the new owner was forgotten: %+v", s)
	}
	forget(9)
	n.settle()
	if n.knows(id) != 0 {
		t.Error("what belongs to no group is kept")
	}
}
