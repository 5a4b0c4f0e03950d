package pulsemq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// epochOf is the epoch of a group's last sharing out.
func epochOf(t *testing.T, client *pulsemq.Client, group string) int64 {
	t.Helper()
	d, err := client.Admin().DescribeGroup(within(t), group)
	if err != nil {
		t.Fatal(err)
	}
	return d.Epoch
}

// partitionsOf is which partitions an application has.
func partitionsOf(a *groupApp) (numbers []uint32) {
	for _, p := range a.Assignment() {
		numbers = append(numbers, p.Partition)
	}
	return numbers
}

// TestRealBrokerSlowHandler has a record that takes several session time-outs. Its member keeps its place and its
// partitions until GroupMaxPoll, and commits what it did; one that takes longer leaves, another goes on, and when it
// comes back it joins anew. So does one that stops asking without having anything in hand.
func TestRealBrokerSlowHandler(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t))
	const session = 2 * time.Second // a loaded machine may stand still for a while
	t.Run("in time", func(t *testing.T) {
		t.Parallel()
		groupTopic(t, client, "slow", 1, 3)
		release := make(chan struct{})
		a := openApp(t, client, "slow", "slow", pulsemq.GroupMaxPoll(time.Minute)).run(func(r *pulsemq.Record) {
			if r.Offset == 1 {
				<-release
			}
		})
		a.sees("0")
		id, epoch := a.MemberID(), epochOf(t, client, "slow")
		begun := time.Now()
		// Heartbeats come all the while: two session time-outs later the broker has heard of it within one.
		eventually(t, func() bool { return time.Since(begun) > 2*session+session/4 })
		d, err := client.Admin().DescribeGroup(within(t), "slow")
		if err != nil || len(d.Members) != 1 || d.Members[0].ID != id || d.Members[0].Heard > session || d.Epoch != epoch {
			t.Errorf("during the record the group is %+v, %v", d, err)
		}
		close(release)
		a.sees("0 1 2")
		a.stop()
		if a.MemberID() != id || !slices.Equal(a.callbacks(), []string{"assigned 0@0", "revoked 0@3"}) || committed(t, client, "slow", 0) != 3 {
			t.Errorf("after it: %v, committed %d", a.callbacks(), committed(t, client, "slow", 0))
		}
	})
	for name, inHand := range map[string]bool{"too late": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := fmt.Sprint("stuck-", inHand)
			groupTopic(t, client, group, 1, 3)
			a := openApp(t, client, group, group, pulsemq.GroupMaxPoll(time.Second))
			records, err := a.Poll(within(t))
			if err != nil || len(records) != 3 {
				t.Fatalf("%v, %v", records, err)
			}
			want := "0 1 2" // nobody knows whether they were processed
			if !inHand {
				if err := a.Commit(within(t)); err != nil {
					t.Fatal(err)
				}
				// A Poll that ends without records leaves nothing in hand.
				if _, err := a.Poll(upTo(t, time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				want = ""
			}
			first := a.MemberID()
			other := openApp(t, client, group, group).run(nil)
			eventually(t, func() bool { return other.called("assigned 0@0") || other.called("assigned 0@3") })
			other.sees(want)
			if lost := map[bool]string{true: "lost 0@0", false: "lost 0@3"}[inHand]; !slices.Equal(a.callbacks(), []string{"assigned 0@0", lost}) {
				t.Errorf("who was too late is told %v", a.callbacks())
			}
			// What it processed meanwhile is not committed any more.
			if len(a.Assignment()) != 0 {
				t.Errorf("it still has %v", a.Assignment())
			}
			other.stop()
			sendNumbers(t, client, group, 1, 3, 4)
			a.run(nil).sees("3")
			if a.MemberID() == first {
				t.Error("it has not joined anew")
			}
			a.stop()
			if at := committed(t, client, group, 0); at != 4 {
				t.Errorf("committed is %d", at)
			}
		})
	}
}

// TestRealBrokerGroupCallbacks shares partitions: who gives one up is asked after its last record, and the commit made
// there counts; who gets it is told before its first record; who is removed is told that it is lost, and its late
// commits are refused.
func TestRealBrokerGroupCallbacks(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t))
	t.Run("revoked", func(t *testing.T) {
		t.Parallel()
		groupTopic(t, client, "moves", 2, 8) // partition 1 has 1 3 5 7
		var app atomic.Pointer[groupApp]
		var inHand atomic.Int32
		busy, release := make(chan struct{}), make(chan struct{})
		a := openApp(t, client, "moves", "moves", pulsemq.GroupAutoCommit(0), pulsemq.GroupOnRevoked(func(places []pulsemq.GroupPartition) {
			a := app.Load()
			if inHand.Load() != 0 {
				t.Error("a partition is revoked while a record of it is processed")
			}
			for _, p := range places {
				if err := a.CommitOffset(within(t), p.Topic, p.Partition, p.Offset); err != nil {
					t.Error(err)
				}
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.calls = append(a.calls, "asked")
		}))
		app.Store(a)
		a.run(func(r *pulsemq.Record) {
			inHand.Add(1)
			defer inHand.Add(-1)
			if r.Offset == 3 && r.Partition == 1 { // the last of the partition that moves
				close(busy)
				<-release
			}
		})
		<-busy
		b := openApp(t, client, "moves", "moves").run(nil)
		eventually(t, func() bool { return b.MemberID() != "" })
		if got := partitionsOf(b); len(got) != 0 {
			t.Errorf("who joins has %v before anything was given up", got)
		}
		close(release)
		eventually(t, func() bool { return slices.Equal(partitionsOf(b), []uint32{1}) && b.called("assigned 1@4") })
		if !a.called("asked") || !slices.Equal(partitionsOf(a), []uint32{0}) {
			t.Errorf("who gives up: %v, has %v", a.callbacks(), partitionsOf(a))
		}
		if at := committed(t, client, "moves", 0); at != -1 {
			t.Errorf("%d of the partition that stays was committed", at)
		}
		sendNumbers(t, client, "moves", 2, 8, 10)
		b.sees("9") // nothing twice
		b.stop()
		a.stop()
	})
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		groupTopic(t, client, "lost", 1, 3)
		a := openApp(t, client, "lost", "lost", pulsemq.GroupAutoCommit(0))
		if _, err := a.Poll(within(t)); err != nil {
			t.Fatal(err)
		}
		// An operator removes all members and sets the group back.
		if err := client.Admin().SeekGroup(within(t), "lost", "lost", map[uint32]int64{0: 1}, true); err != nil {
			t.Fatal(err)
		}
		// Whether it has heard of it or not: who commits before it processes must not process these.
		if err := a.Commit(within(t)); !errors.Is(err, pulsemq.ErrStaleEpoch) {
			t.Errorf("the commit of a member that was removed: %v", err)
		}
		if at := committed(t, client, "lost", 0); at != 1 {
			t.Errorf("it has moved the group to %d", at)
		}
		a.run(nil).sees("1 2")
		// It may hear of it before it commits, which counts what it has in hand as processed, or after.
		if calls := a.callbacks(); len(calls) != 3 || calls[0] != "assigned 0@0" || calls[1] != "lost 0@0" && calls[1] != "lost 0@3" || calls[2] != "assigned 0@1" {
			t.Errorf("callbacks: %v", a.callbacks())
		}
		a.stop()
	})
}

// TestRealBrokerGroupPauseSeek pauses a partition, which keeps its place while the others go on, and seeks, which does
// not move what the group has committed.
func TestRealBrokerGroupPauseSeek(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t))
	groupTopic(t, client, "t", 2, 4)
	a := openApp(t, client, "t", "t")
	var got []string
	poll := func(n int) {
		t.Helper()
		for got = nil; len(got) < n; {
			records, err := a.Poll(within(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				got = append(got, string(r.Value))
			}
		}
		slices.Sort(got)
	}
	if poll(4); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Fatalf("first %v", got)
	}
	if err := a.Pause("t", 0); err != nil {
		t.Fatal(err)
	}
	sendNumbers(t, client, "t", 2, 4, 8)
	if poll(2); !slices.Equal(got, []string{"5", "7"}) {
		t.Fatalf("while a partition is paused: %v", got)
	}
	if _, err := a.Poll(upTo(t, 50*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a paused partition returns something: %v", err)
	}
	if err := a.Resume("t", 0); err != nil {
		t.Fatal(err)
	}
	if poll(2); !slices.Equal(got, []string{"4", "6"}) {
		t.Fatalf("resumed: %v", got)
	}
	if err := a.Commit(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := a.Seek(within(t), "t", 1, pulsemq.StartOffset(2)); err != nil {
		t.Fatal(err)
	}
	if poll(2); !slices.Equal(got, []string{"5", "7"}) {
		t.Fatalf("sought: %v", got)
	}
	if err := a.Seek(within(t), "t", 7, pulsemq.StartEarliest()); !errors.Is(err, pulsemq.ErrInvalidRequest) {
		t.Errorf("a seek in what is not its own: %v", err)
	}
	if err := a.Pause("t", 7); !errors.Is(err, pulsemq.ErrInvalidRequest) {
		t.Errorf("a pause of what is not its own: %v", err)
	}
	a.stop()
	for p := range uint32(2) {
		if at := committed(t, client, "t", p); at != 4 {
			t.Errorf("partition %d: committed is %d", p, at)
		}
	}
}

// TestRealBrokerGroupClose ends members gracefully: what was processed is committed, others go on at once although the
// session time-out is long, and a static member that comes back moves nothing.
func TestRealBrokerGroupClose(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t))
	long := pulsemq.GroupSessionTimeout(10 * time.Minute)
	t.Run("leaves", func(t *testing.T) {
		t.Parallel()
		groupTopic(t, client, "leaves", 2, 6)
		a := openApp(t, client, "leaves", "leaves", long, pulsemq.GroupAutoCommit(time.Hour)).run(nil)
		eventually(t, func() bool { return len(a.values()) == 6 })
		a.stop()
		d, err := client.Admin().DescribeGroup(within(t), "leaves")
		if err != nil || len(d.Members) != 0 || d.State != pulsemq.GroupEmpty {
			t.Fatalf("after Close: %+v, %v", d, err)
		}
		if !a.called("revoked 0@3 1@3") {
			t.Errorf("callbacks: %v", a.callbacks())
		}
		if _, err := a.Poll(within(t)); !errors.Is(err, pulsemq.ErrClosed) {
			t.Errorf("Poll after Close: %v", err)
		}
		b := openApp(t, client, "leaves", "leaves", long).run(nil)
		eventually(t, func() bool { return b.called("assigned 0@3 1@3") })
		b.stop()
		if len(b.values()) != 0 {
			t.Errorf("processed again: %v", b.values())
		}
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		groupTopic(t, client, "at-once", 1, 1)
		for range 20 { // somewhere before, during and after its joining
			openApp(t, client, "at-once", "at-once", long).stop()
			d, err := client.Admin().DescribeGroup(within(t), "at-once")
			if len(d.Members) != 0 || err != nil && !errors.Is(err, pulsemq.ErrUnknownGroup) {
				t.Fatalf("a member that was closed at once: %+v, %v", d.Members, err)
			}
		}
	})
	t.Run("nothing yet", func(t *testing.T) {
		t.Parallel()
		groupTopic(t, client, "nothing", 1, 2)
		a := openApp(t, client, "nothing", "nothing", pulsemq.GroupStart(pulsemq.StartLatest())).run(nil)
		eventually(t, func() bool { return a.called("assigned 0@2") })
		a.stop()
		sendNumbers(t, client, "nothing", 1, 2, 3)
		b := openApp(t, client, "nothing", "nothing", pulsemq.GroupStart(pulsemq.StartLatest())).run(nil)
		b.sees("2") // sent while there was no member, and after the group had begun
		b.stop()
	})
	t.Run("manual", func(t *testing.T) {
		t.Parallel()
		groupTopic(t, client, "manual", 1, 2)
		a := openApp(t, client, "manual", "manual", pulsemq.GroupAutoCommit(0)).run(nil)
		a.sees("0 1")
		a.stop()
		if at := committed(t, client, "manual", 0); at != -1 {
			t.Errorf("Close has committed %d, and that is the application's", at)
		}
	})
	t.Run("static", func(t *testing.T) {
		t.Parallel()
		groupTopic(t, client, "static", 4, 8)
		first := openApp(t, client, "static", "static", long, pulsemq.GroupInstance("host-1")).run(nil)
		eventually(t, func() bool { return len(first.values()) == 8 })
		second := openApp(t, client, "static", "static", long, pulsemq.GroupInstance("host-2")).run(nil)
		eventually(t, func() bool { return len(partitionsOf(first)) == 2 && len(partitionsOf(second)) == 2 })
		had, stays, epoch := partitionsOf(first), partitionsOf(second), epochOf(t, client, "static")
		calls := len(second.callbacks())
		first.stop()
		if d, err := client.Admin().DescribeGroup(within(t), "static"); err != nil || len(d.Members) != 2 || d.Epoch != epoch {
			t.Fatalf("a static member that ends: %+v, %v", d, err)
		}
		sendNumbers(t, client, "static", 4, 8, 12)
		eventually(t, func() bool { return len(second.values()) == 2 })
		again := openApp(t, client, "static", "static", long, pulsemq.GroupInstance("host-1")).run(nil)
		eventually(t, func() bool { return len(again.values()) == 2 })
		if got := partitionsOf(again); !slices.Equal(got, had) {
			t.Errorf("it had %v, and has %v now", had, got)
		}
		if got := partitionsOf(second); !slices.Equal(got, stays) || len(second.callbacks()) != calls {
			t.Errorf("the other had %v, and has %v after %v", stays, got, second.callbacks())
		}
		again.stop()
		second.stop()
	})
}
