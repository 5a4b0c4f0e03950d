package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
	"github.com/pulsemq/pulsemq/proto"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newCluster(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), seeds ...string) *Cluster {
	c := New(seeds, conn.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}, time.Minute, &conn.Options{
		DialTimeout: time.Second, RequestTimeout: 5 * time.Second, Keepalive: 5 * time.Second, Dial: dial, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(c.Close)
	return c
}

var dial = (&net.Dialer{}).DialContext

// TestOneQuestionForAll has many ask about one topic at the same time, and later.
func TestOneQuestionForAll(t *testing.T) {
	f := fakebroker.New(1)
	defer f.Close()
	f.Create("t", 3)
	c := newCluster(t, dial, f.Node(1).Address())
	f.SetFault(func(proto.Message) fakebroker.Fault { return fakebroker.Fault{Delay: 20 * time.Millisecond} })
	var answers atomic.Int32
	done := make(chan error)
	for range 20 {
		go func() {
			topic, err := c.Topic(within(t), "t")
			if err == nil && len(topic.Partitions) == 3 {
				answers.Add(1)
			}
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Topic(within(t), "t"); err != nil {
		t.Error(err)
	}
	if n := f.Requests(proto.CommandMetadata); answers.Load() != 20 || n != 1 {
		t.Errorf("%d answers from %d questions", answers.Load(), n)
	}
	if n := f.Node(1).Sessions(); n != 1 {
		t.Errorf("%d connections", n)
	}
	if _, err := c.Topic(within(t), "none"); !errors.Is(err, proto.ErrUnknownTopic) {
		t.Error(err)
	}
}

// TestOldKnowledgeIsRefreshed waits for no one: what is old is returned, and asked for again beside.
func TestOldKnowledgeIsRefreshed(t *testing.T) {
	f := fakebroker.New(1)
	defer f.Close()
	f.Create("t", 1)
	c := newCluster(t, dial, f.Node(1).Address())
	c.metadataAge = time.Nanosecond
	old, err := c.Topic(within(t), "t")
	if err != nil {
		t.Fatal(err)
	}
	f.Grow("t", 2)
	learned := make(chan *Topic, 100)
	defer c.Watch(func(t *Topic) { learned <- t })()
	if again, err := c.Topic(within(t), "t"); err != nil || again != old {
		t.Errorf("%v, %v", again, err)
	}
	if topic := <-learned; len(topic.Partitions) != 2 {
		t.Errorf("%+v", topic)
	}
}

func TestLearn(t *testing.T) {
	c := newCluster(t, dial)
	answer := func(epoch uint64, id byte, leader uint32, leaderEpoch int32) {
		c.Learn(&proto.MetadataResponse{MetadataEpoch: epoch, Brokers: []proto.MetadataBroker{{NodeID: 1, Host: "a", Port: 1}, {NodeID: 2, Host: "b", Port: 2}},
			Topics: []proto.MetadataTopic{{Name: "t", TopicID: [16]byte{id}, Partitions: []proto.MetadataPartition{{Leader: leader, LeaderEpoch: leaderEpoch}}}}})
	}
	want := func(what string, id byte, leader uint32, epoch int32) {
		t.Helper()
		got := c.Cached("t")
		if got.ID[0] != id || got.Partitions[0].Leader != leader || got.Partitions[0].LeaderEpoch != epoch {
			t.Errorf("%s: %+v", what, got)
		}
	}
	answer(5, 1, 1, 1)
	want("first", 1, 1, 1)
	answer(4, 1, 2, 1)
	want("an older answer is dropped", 1, 1, 1)
	if !c.LearnLeader("t", [16]byte{1}, 0, &proto.LeaderHint{NodeID: 2, LeaderEpoch: 3, Address: "[::1]:7"}) {
		t.Error("a hint was not taken")
	}
	want("a hint", 1, 2, 3)
	if address, err := c.address(2); err != nil || address != "[::1]:7" {
		t.Error(address, err)
	}
	answer(6, 1, 1, 2)
	want("metadata with an older leader than the hint", 1, 2, 3)
	for what, ok := range map[string]bool{
		"an old epoch":     c.LearnLeader("t", [16]byte{1}, 0, &proto.LeaderHint{NodeID: 1, LeaderEpoch: 3, Address: "a:1"}),
		"another topic":    c.LearnLeader("t", [16]byte{9}, 0, &proto.LeaderHint{NodeID: 1, LeaderEpoch: 9, Address: "a:1"}),
		"no leader":        c.LearnLeader("t", [16]byte{1}, 0, &proto.LeaderHint{LeaderEpoch: 9}),
		"nothing":          c.LearnLeader("t", [16]byte{1}, 0, nil),
		"no such place":    c.LearnLeader("t", [16]byte{1}, 5, &proto.LeaderHint{NodeID: 1, LeaderEpoch: 9, Address: "a:1"}),
		"unknown and mute": c.LearnLeader("t", [16]byte{1}, 0, &proto.LeaderHint{NodeID: 77, LeaderEpoch: 9}),
	} {
		if ok {
			t.Errorf("a hint about %s was taken", what)
		}
	}
	answer(7, 2, 1, 1)
	want("a namesake begins anew", 2, 1, 1)
	c.Learn(&proto.MetadataResponse{MetadataEpoch: 8, Topics: []proto.MetadataTopic{{Name: "t", Error: proto.Error{Code: proto.CodeUnknownTopic}}}})
	if c.Cached("t") != nil {
		t.Error("a deleted topic is still known")
	}
}

// TestTwoClusters names brokers of two clusters in one list.
func TestTwoClusters(t *testing.T) {
	one, two := fakebroker.New(1), fakebroker.New(1)
	defer one.Close()
	defer two.Close()
	c := newCluster(t, dial, one.Node(1).Address())
	if _, err := c.Any(within(t)); err != nil {
		t.Fatal(err)
	}
	_, err := c.link(linkKey{role: RoleConsume, seed: two.Node(1).Address()}).Get(within(t))
	if err == nil || !strings.Contains(err.Error(), "two clusters") {
		t.Error(err)
	}
}

// TestClusterReplaced has everything set up anew at the same address: what was known means nothing.
func TestClusterReplaced(t *testing.T) {
	one, two := fakebroker.New(1), fakebroker.New(1)
	defer one.Close()
	defer two.Close()
	one.Create("t", 1)
	now := one
	c := newCluster(t, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, now.Node(1).Address())
	}, "broker:1")
	if _, err := c.Topic(within(t), "t"); err != nil {
		t.Fatal(err)
	}
	live, err := c.Any(within(t))
	if err != nil {
		t.Fatal(err)
	}
	now = two
	one.Node(1).Stop()
	<-live.Closed()
	if _, err := c.Any(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Topic(within(t), "t"); !errors.Is(err, proto.ErrUnknownTopic) {
		t.Error(err)
	}
}

// TestAnswerThatTellsNothing has the broker answer with what cannot be taken in: that is an error, not a topic.
func TestAnswerThatTellsNothing(t *testing.T) {
	f := fakebroker.New(1)
	defer f.Close()
	f.Create("t", 1)
	c := newCluster(t, dial, f.Node(1).Address())
	if _, err := c.Any(within(t)); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.id = "another"
	c.mu.Unlock()
	if topic, err := c.Topic(within(t), "t"); topic != nil || err == nil || !strings.Contains(err.Error(), "tells nothing") {
		t.Errorf("topic %v, error %v", topic, err)
	}
}

// TestBackOffBetweenAttempts counts connections to a broker that hangs up at once.
func TestBackOffBetweenAttempts(t *testing.T) {
	var attempts atomic.Int32
	c := newCluster(t, func(context.Context, string, string) (net.Conn, error) {
		attempts.Add(1)
		a, b := net.Pipe()
		b.Close()
		return a, nil
	}, "broker:1")
	c.backoff = conn.Backoff{Min: 40 * time.Millisecond, Max: 40 * time.Millisecond}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Any(ctx); !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if n := attempts.Load(); n < 2 || n > 11 {
		t.Errorf("%d attempts", n)
	}
}
