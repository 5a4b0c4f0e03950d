package group

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
)

func largeJoining(id string) *Joining {
	j := &Joining{ID: id, Client: strings.Repeat("c", 255), Host: "h", Session: int64(time.Minute), Rebalance: int64(time.Minute)}
	for i := range core.GroupTopicsMax {
		j.Names = append(j.Names, fmt.Sprintf("%0*d", core.TopicNameBytesMax, i))
	}
	return j
}

// A group takes members in until its record has no room, says so, and takes another one when one has left.
func TestMembersAreBoundedByBytes(t *testing.T) {
	g, topics := New("g", Stream, 0, 1), &catalog{epoch: 1, topics: map[string]*core.Topic{}}
	var refused error
	n := 0
	for ; refused == nil; n++ {
		_, refused = g.Join(largeJoining(fmt.Sprint("member-", n)), topics, 0)
	}
	var room *RoomError
	if !errors.As(refused, &room) || room.Max != core.GroupRecordBytesMax || n < 10 || n > 100 {
		t.Fatalf("member %d: %v", n, refused)
	}
	if got := len(g.AppendRecord(nil)); got > core.GroupRecordBytesMax || got < core.GroupRecordBytesMax*3/4 {
		t.Errorf("the record has %d bytes", got)
	}
	if _, err := g.Join(largeJoining("member-0"), topics, 0); err != nil { // it brings nothing more
		t.Errorf("a member that is there: %v", err)
	}
	g.Leave(g.Member("member-0"), false, 1, 0)
	if _, err := g.Join(largeJoining("another"), topics, 0); err != nil {
		t.Errorf("in the room of one that left: %v", err)
	}
}

// Topics that do not fit are left out, and never those that the group shares already.
func TestTopicsThatDoNotFitAreLeftOut(t *testing.T) {
	g, topics := New("g", Stream, 0, 1), &catalog{epoch: 1, topics: map[string]*core.Topic{}}
	g.WeightMax = 3000
	set := func(name string, id byte, partitions int) {
		topics.set(name, id, partitions)
		topics.order = append(topics.order, name)
	}
	for i := range 10 {
		set(fmt.Sprintf("m%d", i), byte(i+1), 10)
	}
	if _, err := g.Join(&Joining{ID: "m", Pattern: ".*", Session: int64(time.Minute), Rebalance: int64(time.Minute)}, topics, 0); err != nil {
		t.Fatal(err)
	}
	if len(g.Topics) != 10 || g.LeftOut != 0 {
		t.Fatalf("%d topics are shared, %d left out", len(g.Topics), g.LeftOut)
	}
	for i := range 30 {
		set(fmt.Sprintf("a%d", i), byte(i+50), 10)
	}
	topics.set("m3", 4, 200)
	topics.epoch++
	g.Refresh(topics, int64(time.Hour))
	kept := 0
	for _, topic := range g.Topics {
		if topic.Name[0] == 'm' {
			kept++
		}
	}
	if kept != 10 || g.LeftOut == 0 || len(g.Topics)+g.LeftOut != 41 || g.Weight() > g.WeightMax {
		t.Fatalf("%d of 10 topics are kept, %d shared, %d left out, weight %d", kept, len(g.Topics), g.LeftOut, g.Weight())
	}
	g.Dirty = false
	topics.epoch++
	g.Refresh(topics, 2*int64(time.Hour))
	if g.Dirty {
		t.Error("a look that finds the same changes the group")
	}
}
