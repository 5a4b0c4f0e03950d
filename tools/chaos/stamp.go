package main

import (
	"encoding/binary"
	"errors"
)

// stampBytes is the part of a value that says which message it is.
const stampBytes = 16

// stamp identifies a message: the writer, and its number among the writer's messages. A writer sends to one partition,
// so numbers rise with offsets.
type stamp struct {
	writer uint64
	number uint64
}

// errContent says that a value is not what any writer made.
var errContent = errors.New("the value is not what was sent")

// value is what the message with this stamp carries: the stamp, then bytes that follow from it.
func (s stamp) value(size int) []byte {
	v := make([]byte, (max(size, stampBytes)+7)&^7)
	binary.BigEndian.PutUint64(v, s.writer)
	binary.BigEndian.PutUint64(v[8:], s.number)
	s.fill(v[stampBytes:])
	return v
}

func (s stamp) fill(v []byte) {
	x := s.writer*0x9e3779b97f4a7c15 ^ s.number*0xbf58476d1ce4e5b9 ^ uint64(len(v))
	for ; len(v) >= 8; v = v[8:] {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(v, x)
	}
}

// stampOf reads a value back and checks every byte of it.
func stampOf(v []byte) (stamp, error) {
	if len(v) < stampBytes || len(v)%8 != 0 {
		return stamp{}, errContent
	}
	s := stamp{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}
	want := s.value(len(v))
	if string(want) != string(v) {
		return s, errContent
	}
	return s, nil
}
