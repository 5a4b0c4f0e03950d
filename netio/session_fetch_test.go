package netio

import (
	"testing"

	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// fetchUnderWay is a session with a fetch of which one chunk waits behind a socket that takes nothing.
func fetchUnderWay(t *testing.T) (*bench, *Session, *testConn) {
	b := newBench(t, benchOptions{})
	s, c := b.connect()
	b.receive(s, proto.AppendFrame(nil, 10, fetch(0, 0)))
	c.room = 0
	b.receive(s, proto.AppendFrame(nil, 11, &proto.PingRequest{})) // its answer blocks the socket
	batch := testBatch(t, 1, 10)
	parcel := &mail.Parcel{Slices: [][]byte{batch}, Bytes: len(batch)}
	b.links[0].Answers.Push(mail.Answer{Kind: mail.AnswerFetch, Conn: s.ref, ID: 10, More: true, Parcel: parcel})
	b.reactor.Turn()
	c.sent = nil
	return b, s, c
}

// oneEnd holds what the client was sent to one end of its request, with nothing behind it.
func oneEnd(t *testing.T, b *bench, c *testConn, code proto.Code) {
	t.Helper()
	c.room = -1
	c.take()
	for range 4 {
		b.reactor.Turn()
	}
	var about []frame
	for _, f := range frames(t, c.sent) {
		if f.header.RequestID == 10 {
			about = append(about, f)
		}
	}
	wantError(t, about, 10, code)
	if len(about) != 1 {
		t.Fatalf("the request has %d frames of answer, want the error alone", len(about))
	}
}

// An error ends a request: what waits of its answer is not sent behind it.
func TestFailedFetchEndsWithItsError(t *testing.T) {
	for name, kind := range map[string]mail.AnswerKind{"failed chunk": mail.AnswerFetch, "refusal": mail.AnswerError} {
		t.Run(name, func(t *testing.T) {
			b, s, c := fetchUnderWay(t)
			b.links[0].Answers.Push(mail.Answer{Kind: kind, Conn: s.ref, ID: 10, Err: &proto.Error{Code: proto.CodeStorageError}})
			b.reactor.Turn()
			oneEnd(t, b, c, proto.CodeStorageError)
		})
	}
}

// A shutdown refuses fetches that shards still have: whatever a shard says later is not told.
func TestDrainedFetchEndsOnce(t *testing.T) {
	for name, late := range map[string]mail.Answer{
		"chunk":   {Kind: mail.AnswerFetch},
		"failure": {Kind: mail.AnswerFetch, Err: &proto.Error{Code: proto.CodeStorageError}},
		"refusal": {Kind: mail.AnswerError, Err: &proto.Error{Code: proto.CodeOffsetOutOfRange}},
	} {
		t.Run(name, func(t *testing.T) {
			b, s, c := fetchUnderWay(t)
			b.reactor.Drain()
			late.Conn, late.ID = s.ref, 10
			b.links[0].Answers.Push(late)
			b.reactor.Turn()
			oneEnd(t, b, c, proto.CodeShuttingDown)
		})
	}
}
