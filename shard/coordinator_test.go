package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/group"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
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

// What the groups of one partition keep there is bounded also while what they send waits, and who is in goes on.
func TestOffsetsAreBoundedByBytes(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("orders", 1).Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	metadata := strings.Repeat("m", core.CursorMetadataBytesMax)
	refused := 0
	for i := 0; refused == 0; i++ {
		for k := range 2000 {
			r := mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &mail.Cursor{
				Deed: mail.CursorSeek, Group: fmt.Sprintf("group-%d-%d", i, k), Owner: 1, Offset: 3, Metadata: metadata,
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

// members are those that a group has, as DESCRIBE_GROUP shows them.
func (n *node) members(group string) (ids []string) {
	n.t.Helper()
	a := n.one(n.groupRequest(group, &proto.DescribeGroupRequest{Group: group}))
	if a.Err != nil {
		wantCode(n.t, a.Err, proto.CodeUnknownGroup)
		return nil
	}
	for _, m := range a.Body.(*proto.DescribeGroupResponse).Members {
		ids = append(ids, m.MemberID)
	}
	return ids
}

// A change that is not stored is answered by nobody as done, and when it is lost it is not seen: the group is again what
// the log says, and who asked is told.
func TestGroupChangeThatIsLostIsNotSeen(t *testing.T) {
	n := newNode(t, 1)
	n.create("orders", 4)
	n.groups()
	a := n.join("g", "a", "", "orders")
	n.join("g", "waiting", "", "orders")
	b, err := n.beat("g", "a", a.MemberEpoch, a.Assignment.Version)
	if err != nil {
		t.Fatal(err)
	}
	c := n.coordinatorOf("g")
	other := "other-0"
	for i := 1; n.coordinatorOf(other) != c; i++ {
		other = fmt.Sprint("other-", i)
	}
	last, record, weight := c.partition.log.LastIndex(), string(c.byName["g"].record), c.weight

	n.held = true
	applied := n.groupRequest("g", &proto.HeartbeatRequest{Group: "g", MemberID: "a", MemberEpoch: a.MemberEpoch, Applied: b.Assignment.Version, WaitMs: 3000})
	n.send(&applied) // gives two partitions up, which go to the other member
	n.turn()
	fresh := n.groupRequest(other, &proto.JoinGroupRequest{Group: other, MemberID: "c", SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 20_000, Topics: []string{"orders"}})
	n.send(&fresh)
	for range 5 {
		n.turn()
	}
	if got := n.answers(); len(got) != 0 || c.undo.Len() != 2 || c.waiting.Len() == 0 {
		t.Fatalf("before anything is stored: %d answers, %d changes, %d wait", len(got), c.undo.Len(), c.waiting.Len())
	}
	late := n.groupRequest("g", &proto.LeaveGroupRequest{Group: "g", MemberID: "a", MemberEpoch: a.MemberEpoch})
	n.send(&late) // in no frame yet
	c.rollBack(last, proto.CodeStorageError.Errorf("the write failed"))
	n.turn()
	told := map[uint64]bool{}
	for _, answer := range n.answers() {
		wantCode(t, answer.Err, proto.CodeStorageError)
		told[answer.ID] = true
	}
	if len(told) != 3 || !told[applied.ID] || !told[fresh.ID] || !told[late.ID] {
		t.Errorf("who is told that it is lost: %v, asked %d, %d and %d", told, applied.ID, fresh.ID, late.ID)
	}
	if got := n.members("g"); !slices.Equal(got, []string{"a", "waiting"}) {
		t.Errorf("the group has %v", got)
	}
	if got := n.members(other); got != nil || c.byName[other] != nil {
		t.Errorf("a group that was never stored has %v", got)
	}
	if e := c.byName["g"]; string(e.AppendRecord(nil)) != record || string(e.record) != record {
		t.Error("the group is not what the log says")
	}
	if c.weight != weight || len(c.sorted) != len(c.byName) || c.undo.Len() != 0 || c.waiting.Len() != 0 {
		t.Errorf("weight %d, before %d; %d names of %d groups; %d changes, %d wait", c.weight, weight, len(c.sorted), len(c.byName), c.undo.Len(), c.waiting.Len())
	}
}

// What a member was told is there after a power cut, also when writes of the groups' segments fail in between.
func TestGroupsThroughFailedSegments(t *testing.T) {
	n := newNode(t, 1)
	n.store = segment.Options{StateBytes: 64 << 10, FlushBytes: 4 << 10}
	n.crash(1, mem.CrashOptions{})
	n.create("orders", 4)
	n.groups()
	var acked []string
	hits := 0
	for i := range 60 {
		var fault *mem.Fault
		if i%10 == 5 {
			kind := []core.DiskOpKind{core.DiskSync, core.DiskWrite}[i/10%2]
			fault = n.disks[0].folder.fs.Inject(&mem.Fault{Kind: kind, Path: "topics/*", Count: 1})
		}
		member := fmt.Sprintf("member-%03d", i)
		r := n.groupRequest("g", &proto.JoinGroupRequest{Group: "g", MemberID: member, ClientName: strings.Repeat("c", 200), SessionTimeoutMs: 1_800_000, RebalanceTimeoutMs: 1_800_000, Topics: []string{"orders"}})
		n.send(&r)
		for range 4 {
			n.settle()
			n.clock.advance(500 * time.Millisecond)
		}
		for _, a := range n.answers() {
			if a.Err == nil {
				acked = append(acked, member)
			} else {
				wantCode(t, a.Err, proto.CodeStorageError)
			}
		}
		if fault != nil {
			hits += fault.Hits()
		}
	}
	if hits == 0 {
		t.Error("no fault was met")
	}
	if got := n.members("g"); !slices.Equal(got, acked) {
		t.Errorf("the group has %v, told were %v", got, acked)
	}
	n.crash(2, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	if got := n.members("g"); !slices.Equal(got, acked) {
		t.Errorf("after the power cut the group has %v, told were %v", got, acked)
	}
}

// Many patterns and many new topics cost a bounded part of a second, and every group finds its topics in the end.
func TestLooksForTopicsAreBounded(t *testing.T) {
	n := newNode(t, 1)
	n.groups()
	c := n.coordinatorOf("g")
	n.clock.advance(time.Hour)
	n.settle()
	if !c.mayLook() || c.looks != looksPerSecond {
		t.Fatalf("after an hour %d looks are allowed, want one second's: %d", c.looks, looksPerSecond)
	}
	c.looks -= 3 * looksPerSecond
	for i := range 30 {
		if may := c.mayLook(); may != (i > 20) {
			t.Fatalf("after %d tenths of a second: %v, with %d left", i, may, c.looks)
		}
		n.clock.advance(100 * time.Millisecond)
		n.settle()
	}
}

// The sweep looks at some groups at a time and comes to all.
func TestSweepComesToAllGroups(t *testing.T) {
	n := newNode(t, 1, func(o *Options) { o.OffsetsRetention = time.Hour })
	n.groups()
	c := n.coordinatorOf("g")
	for i := range 3*sweepMax/2 + 7 {
		c.add(group.New(fmt.Sprint("group-", i), group.Stream, 0, c.wallMillis()))
	}
	for i := 0; len(c.byName) > 0; i++ {
		if i == 3000 {
			t.Fatalf("%d groups are left", len(c.byName))
		}
		n.clock.advance(2 * time.Second)
		n.settle()
	}
	if c.weight != 0 || len(c.sorted) != 0 {
		t.Errorf("weight %d, %d names are left", c.weight, len(c.sorted))
	}
}
