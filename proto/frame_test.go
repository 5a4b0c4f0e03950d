package proto

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestFrameHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := FrameHeader{
			Version:   rapid.Uint8().Draw(t, "version"),
			Command:   Command(rapid.Uint8Range(0, 127).Draw(t, "command")),
			Answer:    rapid.Bool().Draw(t, "answer"),
			RequestID: rapid.Uint64().Draw(t, "id"),
		}
		n := rapid.IntRange(0, 1<<31-1).Draw(t, "payload")
		b := AppendFrameHeader(nil, h, n)
		h.Length = uint32(n + 10)
		got, ok, err := DecodeFrameHeader(b, 1<<32-1)
		if !ok || err != nil || got != h {
			t.Fatalf("%+v became %+v, %v, %v", h, got, ok, err)
		}
		if got.PayloadBytes() != n || got.FrameBytes() != n+FrameHeaderBytes || len(b) != FrameHeaderBytes {
			t.Fatalf("%d payload bytes became %d, the frame %d", n, got.PayloadBytes(), got.FrameBytes())
		}
	})
}

func TestFrameHeaderBytes(t *testing.T) {
	got := AppendFrameHeader(nil, FrameHeader{Version: 1, Command: CommandError, Answer: true, RequestID: 0x0102030405060708}, 3)
	want := []byte{0, 0, 0, 13, 1, 0xff, 1, 2, 3, 4, 5, 6, 7, 8}
	if !bytes.Equal(got, want) {
		t.Fatalf("%x, want %x", got, want)
	}
}

// Broken framing is known from the first four bytes.
func TestFrameHeaderRefuses(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want error
	}{
		{[]byte{0, 0, 0, 0}, ErrMalformedRequest},
		{[]byte{0, 0, 0, 9}, ErrMalformedRequest},
		{[]byte{0, 0, 4, 1}, ErrFrameTooLarge},
		{[]byte{0x7f, 0xff, 0xff, 0xff}, ErrFrameTooLarge},
		{[]byte{0xff, 0xff, 0xff, 0xff}, ErrFrameTooLarge},
		{[]byte("GET / HTTP/1.1\r\n"), ErrFrameTooLarge},
	} {
		if _, ok, err := DecodeFrameHeader(c.b, 1024); ok || !errors.Is(err, c.want) {
			t.Errorf("%x: %v, %v, want %v", c.b, ok, err, c.want)
		}
	}
	whole := AppendFrame(nil, 1, &PingRequest{})
	for n := range FrameHeaderBytes {
		if _, ok, err := DecodeFrameHeader(whole[:n], 1024); ok || err != nil {
			t.Errorf("%d bytes: %v, %v", n, ok, err)
		}
	}
}

// A frame gathered piece by piece, its bulk bytes never copied, is the same as one made at once.
func TestFrameInPieces(t *testing.T) {
	m := FetchResponse{HighWatermark: 5, Batches: []byte("batches")}
	want := AppendFrame(nil, 9, &m)
	b, start := BeginFrame([]byte("before"), FrameHeader{Version: 1, Command: CommandFetch, Answer: true, RequestID: 9})
	b = m.AppendHead(b)
	EndFrame(b, start, len(m.Batches))
	if got := append(b[start:], m.Batches...); !bytes.Equal(got, want) {
		t.Fatalf("%x, want %x", got, want)
	}
}
