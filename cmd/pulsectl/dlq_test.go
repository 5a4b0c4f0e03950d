package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/deadletter"
	"github.com/pulsemq/pulsemq/proto"
)

// scriptLetter is a line of a script's file of dead letters.
type scriptLetter struct {
	Partition  uint32
	Provenance *deadletter.Provenance
	Key        *string
	Value      *string
	Headers    map[string]string
}

// cmdLetters writes dead letters as a broker does, one to each line of a file: clients refuse the broker's headers.
func cmdLetters(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: letters TOPIC FILE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	address := ts.Getenv(brokersEnv)
	client, err := pulsemq.Connect(ctx, address)
	ts.Check(err)
	defer client.Close()
	d, err := client.Admin().DescribeTopic(ctx, args[0])
	ts.Check(err)
	c, err := net.Dial("tcp", address)
	ts.Check(err)
	defer c.Close()
	ts.Check(c.SetDeadline(time.Now().Add(10 * time.Second)))
	_, err = c.Write(proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic, ClientName: "script"}))
	ts.Check(err)
	ts.Check(answered(c, 1, &proto.HelloResponse{}))
	id := uint64(1)
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		var l scriptLetter
		ts.Check(json.Unmarshal([]byte(line), &l))
		r := proto.Record{Timestamp: time.Now().UnixMilli()}
		for key, value := range l.Headers {
			r.Headers = append(r.Headers, proto.Header{Key: []byte(key), Value: []byte(value)})
		}
		if l.Provenance != nil {
			r.Headers = l.Provenance.AppendHeaders(nil, r.Headers)
		}
		if l.Key != nil {
			r.Key = []byte(*l.Key)
		}
		if l.Value != nil {
			r.Value = []byte(*l.Value)
		}
		var b proto.BatchBuilder
		ts.Check(b.Append(&r))
		batch, err := b.Build()
		ts.Check(err)
		id++
		_, err = c.Write(proto.AppendFrame(nil, id, &proto.ProduceRequest{TopicID: d.ID, Partition: l.Partition, LeaderEpoch: -1, Acks: proto.AcksDurable, Batch: batch}))
		ts.Check(err)
		ts.Check(answered(c, id, &proto.ProduceResponse{}))
	}
}

// answered reads frames up to the answer to a request.
func answered(c net.Conn, id uint64, m interface{ Decode([]byte) error }) error {
	for {
		head := make([]byte, proto.FrameHeaderBytes)
		if _, err := io.ReadFull(c, head); err != nil {
			return err
		}
		h, _, err := proto.DecodeFrameHeader(head, 1<<20)
		if err != nil {
			return err
		}
		payload := make([]byte, h.PayloadBytes())
		if _, err := io.ReadFull(c, payload); err != nil {
			return err
		}
		if h.RequestID != id {
			continue
		}
		if h.Command == proto.CommandError {
			return fmt.Errorf("request %d is refused: %q", id, payload)
		}
		return m.Decode(payload)
	}
}

func TestFilters(t *testing.T) {
	for _, text := range []string{"reason", "=x", "colour=red", "header.=x", "Topic=t"} {
		if _, err := parseFilters([]string{text}); err == nil {
			t.Errorf("--filter %s is accepted", text)
		}
	}
	l := &letter{Record: &pulsemq.Record{Key: []byte("k"), Headers: []pulsemq.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2=3")}}},
		provenance: deadletter.Provenance{Topic: "orders", Partition: 4, Group: "billing", Attempts: 5, Reason: "rejected", Text: "no: customer"}}
	for text, want := range map[string]bool{
		"topic=orders": true, "topic=order": false, "partition=4": true, "partition=04": false, "group=billing": true, "group=": false,
		"reason=rejected": true, "reason=rejected: no: customer": false, "attempts=5": true, "attempts=4": false,
		"key=k": true, "key=": false, "header.a=1": true, "header.a=2=3": true, "header.a=3": false, "header.b=": false,
	} {
		filters, err := parseFilters([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		if got := allHold(filters, l); got != want {
			t.Errorf("--filter %s holds: %v", text, got)
		}
	}
	both, err := parseFilters([]string{"group=billing", "attempts=4"})
	if err != nil || allHold(both, l) || !allHold(nil, l) {
		t.Errorf("all must hold; %v", err)
	}
}

// What makes a replay is in the name of its group, and nothing else.
func TestReplayGroups(t *testing.T) {
	a, b := letterFilter{"group", "a"}, letterFilter{"reason", "b"}
	same := replayGroup("t", "", []letterFilter{a, b})
	if again := replayGroup("t", "", []letterFilter{b, a}); again != same {
		t.Errorf("%s and %s", again, same)
	}
	seen := map[string]bool{same: true}
	for _, other := range []string{replayGroup("t", "", nil), replayGroup("t", "", []letterFilter{a}), replayGroup("t", "x", []letterFilter{a, b}),
		replayGroup("u", "", []letterFilter{a, b}), replayGroup("t", "", []letterFilter{{"group", `a" "reason"="b`}})} {
		if seen[other] {
			t.Errorf("%s is that of another", other)
		}
		seen[other] = true
	}
	if long := replayGroup(strings.Repeat("t", 249), "", nil); len(long) > 200 {
		t.Errorf("%d bytes", len(long))
	}
}

func TestCells(t *testing.T) {
	for in, want := range map[string]string{"plain": "plain", "": `""`, "-": `"-"`, "\x1b[31m": `"\x1b[31m"`, "a\nb": `"a\nb"`, "ü": "ü", "\xff": `"\xff"`,
		strings.Repeat("x", 61): strings.Repeat("x", 60) + "..."} {
		if got := cell([]byte(in)); got != want {
			t.Errorf("%q is shown as %s, want %s", in, got, want)
		}
	}
	if cell(nil) != "-" {
		t.Error("null is not shown as -")
	}
}
