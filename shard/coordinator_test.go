package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/group"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// coordinatorOf is who keeps a group.
func (n *node) coordinatorOf(group string) *coordinator {
	r := n.groupRequest(group, &proto.DescribeGroupRequest{Group: group})
	return n.owner(r.Partition).partitions[r.Partition].coordinator
}

// A client that joins ever more large groups is refused, with the limit and what to do, before their records outgrow a
// frame or a state file; groups that are deleted give their room back.
func TestGroupsAreBoundedByBytes(t *testing.T) {
	n := newNode(t, 1)
	n.groups()
	names := make([]string, core.GroupTopicsMax)
	for i := range names {
		names[i] = fmt.Sprintf("%0*d", core.TopicNameBytesMax, i)
	}
	join := func(name string, member int) *proto.Error {
		return n.one(n.groupRequest(name, &proto.JoinGroupRequest{
			Group: name, MemberID: fmt.Sprint("member-", member), ClientName: strings.Repeat("c", 255),
			SessionTimeoutMs: 1_800_000, RebalanceTimeoutMs: 1_800_000, Topics: names,
		})).Err
	}
	fill := func(c *coordinator, name string) {
		e, err := c.wanted(name, group.Stream)
		if err != nil {
			t.Fatal(err)
		}
		c.allow(e)
		for member := range 30 {
			j := &group.Joining{ID: fmt.Sprint("first-", member), Client: "c", Session: int64(time.Hour), Rebalance: int64(time.Hour), Names: names}
			if _, err := e.Join(j, n.view, n.clock.monotonic); err != nil {
				break
			}
		}
		c.changed(e)
		n.settle()
	}
	// Groups of one coordinator, each as large as it may be.
	var groups []string
	var c *coordinator
	for i := 0; c == nil || c.weight < core.GroupsBytesMax-core.GroupRecordBytesMax; i++ {
		name := fmt.Sprint("group-", i)
		if c != nil && n.coordinatorOf(name) != c {
			continue
		}
		groups = append(groups, name)
		c = n.coordinatorOf(name)
		if len(groups) > 1 {
			fill(c, name) // in one turn
			continue
		}
		for member := 0; ; member++ { // one by one
			if err := join(name, member); err != nil {
				wantCode(t, err, proto.CodeGroupFull)
				break
			}
		}
	}
	var err *proto.Error
	for i := 0; err == nil; i++ {
		if name := fmt.Sprint("small-", i); n.coordinatorOf(name) == c {
			err = join(name, 0)
		}
	}
	wantCode(t, err, proto.CodeGroupFull)
	if err.Limit == 0 || err.Limit > core.GroupRecordBytesMax || !strings.Contains(err.Text, "delete groups") {
		t.Fatalf("refused with limit %d: %s", err.Limit, err.Text)
	}
	if size := len(c.snapshot(nil)); size > core.GroupsBytesMax || size < core.GroupsBytesMax*3/4 || c.weight > core.GroupsBytesMax {
		t.Fatalf("a state of %d bytes, weight %d", size, c.weight)
	}
	before, count := c.weight, len(c.byName)
	n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	if c = n.coordinatorOf(groups[0]); c.weight != before || len(c.byName) != count || len(c.sorted) != count {
		t.Fatalf("after the power cut %d groups of weight %d, before %d of %d", len(c.byName), c.weight, count, before)
	}
	if a := n.one(n.groupRequest(groups[0], &proto.FenceGroupRequest{Group: groups[0], Force: true})); a.Err != nil {
		t.Fatal(a.Err)
	}
	if a := n.one(n.groupRequest(groups[0], &proto.DeleteGroupRequest{Group: groups[0]})); a.Err != nil {
		t.Fatal(a.Err)
	}
	if err := join(groups[0], 0); err != nil {
		t.Errorf("in the room of a group that is gone: %v", err)
	}
}

// What the groups of one partition keep there is bounded also while their commits wait, and who is in goes on.
func TestOffsetsAreBoundedByBytes(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("orders", 1).Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	metadata := strings.Repeat("m", core.CursorMetadataBytesMax)
	refused := 0
	for i := 0; refused == 0; i++ {
		for k := range 2000 {
			r := mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &mail.Cursor{
				Deed: mail.CursorCommit, Group: fmt.Sprintf("group-%d-%d", i, k), Owner: 1, Offset: 3, Metadata: metadata,
			}}
			n.send(&r)
		}
		n.settle()
		for _, a := range n.answers() {
			if a.Err != nil {
				wantCode(t, a.Err, proto.CodeGroupFull)
				refused++
			}
		}
	}
	cs := n.machines[0].partitions[id].cursors
	if cs.table.Bytes() > core.CursorBytesMax || cs.growth != 0 || cs.wishes != 0 {
		t.Fatalf("the table holds %d bytes, %d are expected of %d that wait", cs.table.Bytes(), cs.growth, cs.wishes)
	}
	commit := mail.Cursor{Deed: mail.CursorCommit, Group: "group-0-0", Owner: 1, Offset: 5, Metadata: metadata}
	if s := n.mustCursor(id, commit); s.Offset != 5 {
		t.Fatalf("who is in cannot go on: %+v", s)
	}
	_ = n.mustCursor(id, mail.Cursor{Deed: mail.CursorOwn, Group: "group-0-0", Owner: 2})
	n.clock.advance(time.Second)
}
