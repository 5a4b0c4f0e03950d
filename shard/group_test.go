package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// groups makes the groups' topic, as the first JOIN_GROUP does.
func (n *node) groups() {
	n.t.Helper()
	if a := n.one(mail.Request{Kind: mail.RequestAdmin, Body: &mail.GroupsTopicWanted{}}); a.Err != nil {
		n.t.Fatal(a.Err)
	}
	if n.view.TopicByName(core.GroupsTopic) == nil {
		n.t.Fatal("the view does not show the groups' topic")
	}
}

func (n *node) groupRequest(group string, m proto.Message) mail.Request {
	topic := n.view.TopicByName(core.GroupsTopic)
	p := topic.Partitions[proto.PartitionForKey([]byte(group), uint32(len(topic.Partitions)))]
	return mail.Request{Kind: mail.RequestGroup, Partition: p.ID, LeaderEpoch: -1, Body: &mail.GroupCommand{Message: m, View: n.view, Host: "test"}}
}

func (n *node) join(group, member, instance string, topics ...string) *proto.JoinGroupResponse {
	n.t.Helper()
	a := n.one(n.groupRequest(group, &proto.JoinGroupRequest{
		Group: group, MemberID: member, InstanceID: instance, SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 20_000, Topics: topics,
	}))
	if a.Err != nil {
		n.t.Fatal(a.Err)
	}
	return a.Body.(*proto.JoinGroupResponse)
}

// beat is a heartbeat that does not wait.
func (n *node) beat(group, member string, epoch, applied int64) (*proto.HeartbeatResponse, *proto.Error) {
	n.t.Helper()
	a := n.one(n.groupRequest(group, &proto.HeartbeatRequest{Group: group, MemberID: member, MemberEpoch: epoch, Applied: applied}))
	if a.Err != nil {
		return nil, a.Err
	}
	return a.Body.(*proto.HeartbeatResponse), nil
}

func (n *node) cursor(id core.PartitionID, c mail.Cursor) (*mail.CursorState, *proto.Error) {
	n.t.Helper()
	a := n.one(mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &c})
	if a.Err != nil {
		return nil, a.Err
	}
	return a.Body.(*mail.CursorState), nil
}

func (n *node) mustCursor(id core.PartitionID, c mail.Cursor) *mail.CursorState {
	n.t.Helper()
	s, err := n.cursor(id, c)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// own takes a partition over.
func (n *node) own(id core.PartitionID, group string, epoch int64) {
	n.t.Helper()
	n.mustCursor(id, mail.Cursor{Deed: mail.CursorOwn, Group: group, Owner: epoch})
}

func partitionsOf(a *proto.GroupAssignment) (list []uint32) {
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			list = append(list, p.Partition)
		}
	}
	return list
}

func wantCode(t testing.TB, err *proto.Error, code proto.Code) {
	t.Helper()
	if err == nil || err.Code != code {
		t.Fatalf("got %v, want %v", err, code)
	}
}

// A group through its life: members share, one takes over durably, the zombie is fenced, and
// all of it survives power cuts in between.
func TestGroupThroughCrashes(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			n := newNode(t, shards)
			topic := n.create("orders", 4)
			for i := range topic.Partitions {
				n.one(n.produceRequest(topic.Partitions[i].ID, batchSpec{records: 10, value: 5, producer: -1}))
			}
			n.groups()
			a := n.join("g", "a", "", "orders")
			if got := partitionsOf(&a.Assignment); !slices.Equal(got, []uint32{0, 1, 2, 3}) || !a.Assignment.Settled {
				t.Fatalf("the only member has %v", a.Assignment)
			}
			epoch := a.Assignment.Topics[0].Partitions[0].OwnerEpoch
			for i := range topic.Partitions {
				if s := n.mustCursor(topic.Partitions[i].ID, mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: epoch}); s.Offset != -1 || s.Owner != epoch {
					t.Fatalf("taken over: %+v", s)
				}
				n.mustCursor(topic.Partitions[i].ID, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: epoch, Offset: int64(3 + i), LastEpoch: 1, Metadata: "here"})
			}
			b := n.join("g", "b", "", "orders")
			if len(b.Assignment.Topics) != 0 || b.Assignment.Settled {
				t.Fatalf("who joins is given %+v before anybody gave something up", b.Assignment)
			}
			n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
			told, err := n.beat("g", "a", a.MemberEpoch, a.Assignment.Version)
			if err != nil {
				t.Fatal(err)
			}
			kept := partitionsOf(told.Assignment)
			if len(kept) != 2 {
				t.Fatalf("after the power cut a is told %+v", told.Assignment)
			}
			if _, err := n.beat("g", "a", a.MemberEpoch, told.Assignment.Version); err != nil {
				t.Fatal(err)
			}
			n.crash(2, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
			given, err := n.beat("g", "b", b.MemberEpoch, b.Assignment.Version)
			if err != nil {
				t.Fatal(err)
			}
			got := partitionsOf(given.Assignment)
			if len(got) != 2 || slices.Contains(kept, got[0]) || slices.Contains(kept, got[1]) || !given.Assignment.Settled {
				t.Fatalf("b has %v, a keeps %v", got, kept)
			}
			moved := topic.Partitions[got[0]].ID
			owner := given.Assignment.Topics[0].Partitions[0].OwnerEpoch
			s := n.mustCursor(moved, mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: owner})
			if s.Offset != int64(3+got[0]) || s.Metadata != "here" || s.LastEpoch != 1 {
				t.Fatalf("b goes on at %+v, a has committed %d", s, 3+got[0])
			}
			n.crash(3, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
			_, stale := n.cursor(moved, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: epoch, Offset: 9})
			wantCode(t, stale, proto.CodeStaleEpoch)
			if s := n.mustCursor(moved, mail.Cursor{Group: "g"}); s.Offset != int64(3+got[0]) || s.Owner != owner {
				t.Fatalf("the zombie has moved it: %+v", s)
			}
			n.stop()
			n.restart(n.disks[0].folder.fs)
			if s := n.mustCursor(moved, mail.Cursor{Group: "g"}); s.Offset != int64(3+got[0]) || s.Owner != owner {
				t.Fatalf("after a clean stop: %+v", s)
			}
		})
	}
}

// Commits beyond the end, below the start and backwards are refused or change nothing.
func TestCommitBounds(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("orders", 1)
	id := topic.Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	commit := func(offset int64) (*mail.CursorState, *proto.Error) {
		return n.cursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 4, Offset: offset})
	}
	n.own(id, "g", 4)
	_, err := commit(11)
	wantCode(t, err, proto.CodeOffsetOutOfRange)
	if s := n.mustCursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 4, Offset: 7}); s.Offset != 7 {
		t.Fatalf("committed %+v", s)
	}
	if s, err := commit(5); err != nil || s.Offset != 7 {
		t.Fatalf("an older commit after a newer one: %+v, %v", s, err)
	}
	if a := n.one(mail.Request{Kind: mail.RequestTrim, Partition: id, LeaderEpoch: -1, Offset: 8}); a.Err != nil {
		t.Fatal(a.Err)
	}
	_, err = commit(7)
	wantCode(t, err, proto.CodeOffsetOutOfRange)
	s := n.mustCursor(id, mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: 6})
	if s.Offset != 7 || s.Err == nil || s.Err.Code != proto.CodeOffsetOutOfRange || s.Err.Offsets.Earliest != 8 || s.Err.Offsets.Latest != 10 {
		t.Fatalf("taken over below the log start: %+v, %v", s, s.Err)
	}
	_, err = n.cursor(id, mail.Cursor{Deed: mail.CursorSeek, Group: "g", Owner: 6, Offset: 8})
	wantCode(t, err, proto.CodeStaleEpoch)
	if s := n.mustCursor(id, mail.Cursor{Deed: mail.CursorSeek, Group: "g", Owner: 9, Offset: 8}); s.Offset != 8 {
		t.Fatalf("sought: %+v", s)
	}
}

// What is committed in one turn goes to the disk in one frame.
func TestCommitsOfATurnShareAFrame(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("orders", 1).Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	for i := range 50 {
		n.own(id, fmt.Sprint("g", i), 1)
	}
	before := n.machines[0].stats.CursorFrames
	for i := range 50 {
		r := mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &mail.Cursor{Deed: mail.CursorCommit, Group: fmt.Sprint("g", i), Owner: 1, Offset: 3}}
		n.send(&r)
	}
	n.settle()
	if a := n.answers(); len(a) != 50 {
		t.Fatalf("%d answers", len(a))
	}
	if frames := n.machines[0].stats.CursorFrames - before; frames != 1 {
		t.Errorf("50 commits took %d frames", frames)
	}
}

// A commit of what is committed already, or of what lies before, is answered without a frame. Of a topic that was raised to
// sync since, it is answered when the first one is durable.
func TestCommitOfWhatIsCommittedWritesNothing(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("orders", 1, "durability", "batch", "flush.ms", "60000")
	id := topic.Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	n.own(id, "g", 1)
	wrote := func(what string, want uint64, c mail.Cursor, offset int64) {
		t.Helper()
		before := n.machines[0].stats.CursorFrames
		c.Deed, c.Group, c.Owner = mail.CursorCommit, "g", 1
		if s := n.mustCursor(id, c); s.Offset != offset {
			t.Errorf("%s: committed is %d", what, s.Offset)
		}
		if frames := n.machines[0].stats.CursorFrames - before; frames != want {
			t.Errorf("%s took %d frames", what, frames)
		}
	}
	wrote("a commit", 1, mail.Cursor{Offset: 3}, 3)
	wrote("the same again", 0, mail.Cursor{Offset: 3}, 3)
	wrote("an older one", 0, mail.Cursor{Offset: 2}, 3)
	wrote("other metadata", 1, mail.Cursor{Offset: 3, Metadata: "m"}, 3)
	raised := *topic
	raised.Config.Durability = core.DurabilitySync
	p := n.machines[0].partitions[id]
	p.configure(&raised)
	again := mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 1, Offset: 3, Metadata: "m"}}
	n.machines[0].Receive(&again)
	if p.cursors.table.AllDurable() || p.cursors.wishes != 1 {
		t.Error("a repetition is answered before what it repeats is durable")
	}
	n.settle()
	n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	if s := n.mustCursor(id, mail.Cursor{Group: "g"}); s.Offset != 3 || s.Metadata != "m" {
		t.Errorf("after the power cut the table holds %+v", s)
	}
}

// Cursors survive the removal of every segment that held their frames, and states that stand for them.
func TestCursorsOutliveTheirSegments(t *testing.T) {
	n := newNode(t, 1)
	n.store = segment.Options{StateBytes: 256 << 10, RetainNanos: 1, FlushBytes: 64 << 10}
	n.crash(1, mem.CrashOptions{})
	id := n.create("orders", 1, "retention.bytes", "1MiB", "segment.bytes", "2MiB").Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	n.own(id, "g", 4)
	n.mustCursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 4, Offset: 5, Metadata: "m"})
	p := n.machines[0].partitions[id]
	for i := 0; p.log.StartOffset() < 20; i++ {
		if i == 400 {
			t.Fatal("retention removes nothing")
		}
		n.one(n.produceRequest(id, batchSpec{records: 10, value: 5000, producer: -1}))
		n.clock.advance(time.Second)
	}
	n.crash(2, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	if s := n.mustCursor(id, mail.Cursor{Group: "g"}); s.Offset != 5 || s.Owner != 4 || s.Metadata != "m" {
		t.Fatalf("after its segments have gone: %+v", s)
	}
}

// Time-outs that are missing or absurd are refused with what is allowed.
func TestTimeoutsAreChecked(t *testing.T) {
	n := newNode(t, 1)
	n.groups()
	for _, c := range []struct {
		session, rebalance uint32
		limit              uint64
	}{{0, 10_000, 500}, {10_000, 0, 500}, {1 << 31, 10_000, 1_800_000}, {10_000, 1<<32 - 1, 3_600_000}, {499, 10_000, 500}} {
		a := n.one(n.groupRequest("g", &proto.JoinGroupRequest{Group: "g", MemberID: "m", SessionTimeoutMs: c.session, RebalanceTimeoutMs: c.rebalance, Topics: []string{"t"}}))
		wantCode(t, a.Err, proto.CodeInvalidTimeout)
		if a.Err.Limit != c.limit {
			t.Errorf("%+v: the limit is %d", c, a.Err.Limit)
		}
	}
}

// A silent member is removed after its session time-out, not before, and not because the
// broker itself slept.
func TestSessionTimeout(t *testing.T) {
	n := newNode(t, 1)
	n.create("orders", 2)
	n.groups()
	a := n.join("g", "a", "", "orders")
	n.clock.advance(9900 * time.Millisecond)
	n.settle()
	if _, err := n.beat("g", "a", a.MemberEpoch, a.Assignment.Version); err != nil {
		t.Fatalf("before its time: %v", err)
	}
	n.clock.advance(time.Minute) // in one step: it was the broker that slept
	n.settle()
	if _, err := n.beat("g", "a", a.MemberEpoch, a.Assignment.Version); err != nil {
		t.Fatalf("after a pause of the broker: %v", err)
	}
	for range 25 {
		n.clock.advance(500 * time.Millisecond)
		n.settle()
	}
	_, err := n.beat("g", "a", a.MemberEpoch, a.Assignment.Version)
	wantCode(t, err, proto.CodeUnknownMember)
}

// A heartbeat waits for the next assignment and is answered with it.
func TestHeartbeatWaits(t *testing.T) {
	n := newNode(t, 1)
	n.create("orders", 2)
	n.groups()
	a := n.join("g", "a", "", "orders")
	if got := n.ask(n.groupRequest("g", &proto.HeartbeatRequest{Group: "g", MemberID: "a", MemberEpoch: a.MemberEpoch, Applied: a.Assignment.Version, WaitMs: 60_000})); len(got) != 0 {
		t.Fatalf("answered at once: %+v", got)
	}
	got := n.ask(n.groupRequest("g", &proto.JoinGroupRequest{Group: "g", MemberID: "b", SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 20_000, Topics: []string{"orders"}}))
	told := 0
	for _, answer := range got {
		if r, ok := answer.Body.(*proto.HeartbeatResponse); ok && r.Assignment != nil && len(partitionsOf(r.Assignment)) == 1 {
			told++
		}
	}
	if len(got) != 2 || told != 1 {
		t.Fatalf("the join gave %d answers, %d told the waiting member", len(got), told)
	}
}

// Groups whose time is over go with their offsets; those that live, or have committed since, stay.
func TestOffsetsRetention(t *testing.T) {
	n := newNode(t, 3, func(o *Options) { o.OffsetsRetention = time.Hour })
	topic := n.create("orders", 6)
	n.groups()
	var live *proto.JoinGroupResponse
	for _, g := range []string{"dead", "live", "busy"} {
		a := n.join(g, "m", "", "orders")
		for i := range topic.Partitions {
			n.one(n.produceRequest(topic.Partitions[i].ID, batchSpec{records: 2, value: 5, producer: -1}))
			n.own(topic.Partitions[i].ID, g, a.MemberEpoch+100)
			n.mustCursor(topic.Partitions[i].ID, mail.Cursor{Deed: mail.CursorCommit, Group: g, Owner: a.MemberEpoch + 100, Offset: 1})
		}
		if g == "live" {
			live = a
			continue
		}
		if r := n.one(n.groupRequest(g, &proto.LeaveGroupRequest{Group: g, MemberID: "m", MemberEpoch: a.MemberEpoch})); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for range 800 {
		n.clock.advance(5 * time.Second)
		if _, err := n.beat("live", "m", live.MemberEpoch, live.Assignment.Version); err != nil {
			t.Fatal(err)
		}
		if n.clock.wall-testStart.UnixNano() > int64(50*time.Minute) && n.clock.wall-testStart.UnixNano() < int64(51*time.Minute) {
			n.own(topic.Partitions[0].ID, "busy", 500)
			n.mustCursor(topic.Partitions[0].ID, mail.Cursor{Deed: mail.CursorCommit, Group: "busy", Owner: 500, Offset: 2})
		}
	}
	for g, want := range map[string]int64{"dead": -1, "live": 1, "busy": 1} {
		for i := range topic.Partitions {
			at := want
			if g == "busy" && i == 0 {
				at = 2
			}
			if s := n.mustCursor(topic.Partitions[i].ID, mail.Cursor{Group: g}); s.Offset != at {
				t.Errorf("group %s, partition %d: %d is committed, want %d", g, i, s.Offset, at)
			}
		}
	}
	a := n.one(n.groupRequest("dead", &proto.DescribeGroupRequest{Group: "dead"}))
	wantCode(t, a.Err, proto.CodeUnknownGroup)
	if again := n.join("dead", "m", "", "orders"); again.MemberEpoch < live.MemberEpoch {
		t.Log("another coordinator's floor") // floors are per coordinator
	}
}

// Many groups that lived and died leave nothing, in memory and in a state.
func TestManyGroupsLiveAndDie(t *testing.T) {
	n := newNode(t, 1)
	id := n.create("orders", 1).Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	n.groups()
	for i := range 300 {
		g := fmt.Sprint("group-", i)
		a := n.join(g, "m", "", "orders")
		n.own(id, g, a.Assignment.Topics[0].Partitions[0].OwnerEpoch)
		n.mustCursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: g, Owner: a.Assignment.Topics[0].Partitions[0].OwnerEpoch, Offset: 3})
		for _, m := range []proto.Message{&proto.LeaveGroupRequest{Group: g, MemberID: "m", MemberEpoch: a.MemberEpoch}, &proto.DeleteGroupRequest{Group: g}} {
			if r := n.one(n.groupRequest(g, m)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	check := func(when string) {
		t.Helper()
		m := n.machines[0]
		for _, p := range m.partitionsSorted() {
			if c := p.coordinator; c != nil && (len(c.byName) != 0 || c.undo.Len() != 0 || len(c.dirty) != 0 || len(c.snapshot(nil)) != 9) {
				t.Fatalf("%s: a coordinator holds %d groups, a state of %d bytes", when, len(c.byName), len(c.snapshot(nil)))
			}
			if p.cursors != nil && (p.cursors.table.Groups() != 0 || p.cursors.table.Bytes() != 0) {
				t.Fatalf("%s: a partition knows %d groups", when, p.cursors.table.Groups())
			}
		}
	}
	check("before the power cut")
	n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
	check("after it")
	a := n.join("group-7", "m", "", "orders")
	if s := n.mustCursor(id, mail.Cursor{Group: "group-7"}); s.Offset != -1 || a.MemberEpoch < 2 {
		t.Fatalf("a group of an old name begins at %+v, under epoch %d", s, a.MemberEpoch)
	}
}

// What a coordinator has held for many groups at a time is given back when they are gone.
func TestGroupsLeaveNoMemory(t *testing.T) {
	const groups = 5_000
	n := newNode(t, 1)
	n.groups()
	topic := n.view.TopicByName(core.GroupsTopic)
	c := n.machines[0].partitions[topic.Partitions[0].ID].coordinator
	for i := range groups {
		fence := mail.Request{Kind: mail.RequestGroup, Partition: c.partition.id, LeaderEpoch: -1, Body: &mail.GroupCommand{
			Message: &proto.FenceGroupRequest{Group: fmt.Sprint("group-", i)}, View: n.view}}
		n.send(&fence)
	}
	n.settle()
	if len(c.byName) != groups {
		t.Fatalf("%d groups", len(c.byName))
	}
	for i := range groups {
		if i%forgettingMax == 0 {
			n.settle()
		}
		request := mail.Request{Kind: mail.RequestGroup, Partition: c.partition.id, LeaderEpoch: -1, Body: &mail.GroupCommand{
			Message: &proto.DeleteGroupRequest{Group: fmt.Sprint("group-", i)}, View: n.view}}
		n.send(&request)
	}
	n.settle()
	for _, a := range n.answers() {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	if len(c.byName) != 0 || c.peak > groups/4 || cap(c.sorted) > groups/4 || cap(c.dirty) > groups/4 {
		t.Errorf("%d groups are left, and memory of %d, of %d names, of %d changes", len(c.byName), c.peak, cap(c.sorted), cap(c.dirty))
	}
	for _, e := range c.dirty[:cap(c.dirty)] {
		if e != nil {
			t.Fatal("a group that is gone is still held")
		}
	}
}

// A commit behind a write that fails is lost with it, said to be lost, and can be sent again.
func TestCommitBehindAFailedWrite(t *testing.T) {
	for _, durability := range []string{"sync", "batch"} {
		t.Run(durability, func(t *testing.T) {
			n := newNode(t, 1)
			id := n.create("t", 1, "durability", durability).Partitions[0].ID
			big := 700 << 10 // too large for the journal
			n.one(n.produceRequest(id, batchSpec{records: 2, value: 5, producer: -1}))
			n.own(id, "g", 1)
			n.mustCursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 1, Offset: 1})
			n.clock.advance(time.Second)
			n.settle()
			fault := n.disks[0].folder.fs.Inject(&mem.Fault{Kind: core.DiskSync, Path: "topics/*", Count: 1})
			produce := n.produceRequest(id, batchSpec{records: 1, value: big, producer: -1})
			n.send(&produce)
			commit := mail.Request{Kind: mail.RequestCursor, Partition: id, LeaderEpoch: -1, Body: &mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 1, Offset: 2}}
			n.send(&commit)
			for range 5 {
				n.settle()
				n.clock.advance(time.Second)
			}
			if fault.Hits() == 0 {
				t.Skip("the engine did not sync a segment for this write")
			}
			failed := false
			for _, a := range n.answers() {
				failed = failed || a.ID == commit.ID && a.Err != nil && a.Err.Code == proto.CodeStorageError
			}
			if durability == "sync" && !failed {
				t.Error("the commit was acknowledged with the write before it lost")
			}
			want := int64(1)
			p := n.machines[0].partitions[id]
			if p.log.EndOffset() > 2 {
				want = 2 // nothing was lost
			}
			if s := n.mustCursor(id, mail.Cursor{Group: "g"}); s.Offset != want || s.Owner != 1 {
				t.Errorf("the table holds %+v, want offset %d and owner 1", s, want)
			}
			n.mustCursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 1, Offset: 2})
			n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
			if s := n.mustCursor(id, mail.Cursor{Group: "g"}); durability == "sync" && s.Offset != 2 {
				t.Errorf("after the power cut: %+v", s)
			}
		})
	}
}

// Who takes a partition over is answered when that survives a power cut, in a topic of any durability.
func TestTakeOverIsDurableBeforeItIsAnswered(t *testing.T) {
	for _, durability := range []string{"sync", "batch", "none"} {
		n := newNode(t, 1)
		id := n.create("t", 1, "durability", durability, "flush.ms", "60000").Partitions[0].ID
		n.one(n.produceRequest(id, batchSpec{records: 2, value: 5, producer: -1}))
		n.mustCursor(id, mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: 1})
		n.mustCursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 1, Offset: 1})
		// A commit makes nobody the owner: it is not synced, and a take-over that finds the epoch there would be answered at once.
		_, _ = n.cursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: 7, Offset: 1})
		n.mustCursor(id, mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: 7})
		n.crash(1, mem.CrashOptions{Data: mem.FateDrop, Entries: mem.FateDrop, InFlight: mem.FateDrop})
		if s := n.mustCursor(id, mail.Cursor{Group: "g"}); s.Owner != 7 || s.Offset != 1 {
			t.Errorf("%s: after the power cut the table holds %+v", durability, s)
		}
	}
}

// Only the owner commits: neither who was it before, nor who never was, nor who was it of a group that has been deleted. A
// group that is made again under the name begins with nothing, and its epochs are above those of before.
func TestOnlyTheOwnerCommits(t *testing.T) {
	n := newNode(t, 1)
	topic := n.create("orders", 1)
	id := topic.Partitions[0].ID
	n.one(n.produceRequest(id, batchSpec{records: 10, value: 5, producer: -1}))
	n.groups()
	frames := n.machines[0].stats.CursorFrames
	commit := func(epoch, offset int64) *proto.Error {
		_, err := n.cursor(id, mail.Cursor{Deed: mail.CursorCommit, Group: "g", Owner: epoch, Offset: offset})
		return err
	}
	a := n.join("g", "a", "", "orders")
	epoch := a.Assignment.Topics[0].Partitions[0].OwnerEpoch
	wantCode(t, commit(epoch, 3), proto.CodeStaleEpoch)
	n.mustCursor(id, mail.Cursor{Deed: mail.CursorOwn, Group: "g", Owner: epoch})
	wantCode(t, commit(epoch+1, 3), proto.CodeStaleEpoch)
	if err := commit(epoch, 3); err != nil {
		t.Fatal(err)
	}
	// A commit is on its way while the group is deleted: it was sent before, and comes to the log behind the deletion.
	for _, m := range []proto.Message{&proto.LeaveGroupRequest{Group: "g", MemberID: "a", MemberEpoch: a.MemberEpoch}, &proto.DeleteGroupRequest{Group: "g"}} {
		if r := n.one(n.groupRequest("g", m)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	wantCode(t, commit(epoch, 7), proto.CodeStaleEpoch)
	cs := n.machines[0].partitions[id].cursors
	if cs.table.Groups() != 0 || cs.wishes != 0 {
		t.Fatalf("after the deletion the partition knows %d groups, %d wishes wait", cs.table.Groups(), cs.wishes)
	}
	if wrote := n.machines[0].stats.CursorFrames - frames; wrote != 3 { // taken over, committed, forgotten
		t.Errorf("%d frames were written", wrote)
	}
	if again := n.join("g", "a", "", "orders"); again.MemberEpoch <= epoch {
		t.Errorf("the new group begins under epoch %d, the old one had %d", again.MemberEpoch, epoch)
	}
	if s := n.mustCursor(id, mail.Cursor{Group: "g"}); s.Offset != -1 || s.Owner != -1 {
		t.Errorf("the new group begins at %+v", s)
	}
}

// A heartbeat of a static member waits while another process takes its place. The old process is told so, and not what
// the new one has: under the same owner epochs no fence would hold between the two.
func TestHeartbeatOfAReplacedProcess(t *testing.T) {
	n := newNode(t, 1)
	n.create("orders", 2)
	n.groups()
	old := n.join("g", "old", "host-7", "orders")
	beat := &proto.HeartbeatRequest{Group: "g", MemberID: "old", InstanceID: "host-7", MemberEpoch: old.MemberEpoch, Applied: old.Assignment.Version, WaitMs: 60_000}
	if got := n.ask(n.groupRequest("g", beat)); len(got) != 0 {
		t.Fatalf("a heartbeat without news is answered at once: %+v", got)
	}
	got := n.ask(n.groupRequest("g", &proto.JoinGroupRequest{
		Group: "g", MemberID: "new", InstanceID: "host-7", SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 20_000, Topics: []string{"orders"},
	}))
	if len(got) != 2 {
		t.Fatalf("the join gave %d answers: %+v", len(got), got)
	}
	for _, a := range got {
		if _, joined := a.Body.(*proto.JoinGroupResponse); !joined && (a.Err == nil || a.Err.Code != proto.CodeStaleEpoch) {
			t.Errorf("the heartbeat of the old process is answered with %+v", a)
		}
	}
}
