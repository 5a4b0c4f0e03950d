package cursor

import (
	"encoding/binary"
	"fmt"
)

// Kind says what an entry does. Numbers are never reused.
type Kind uint8

const (
	// Commit moves the committed offset forward, for the owner.
	Commit Kind = 1
	// Own raises the owner epoch: commits of earlier owners do nothing from here on.
	Own Kind = 2
	// Seek sets the committed offset under a new epoch, also back.
	Seek Kind = 3
	// Forget drops the group.
	Forget Kind = 4
	// Queue holds a change of a queue group's window; its body is the queue's own.
	Queue Kind = 5
)

const (
	frameVersion = 1
	commitBytes  = 8 + 8 + 4 + 8
)

// Entry is one change.
type Entry struct {
	Kind      Kind
	Group     string
	Epoch     int64 // of the owner
	Offset    int64 // of the next record to read
	LastEpoch int32 // leader epoch of the last record read; -1 unknown
	Time      int64 // wall clock, milliseconds since the Unix epoch
	Metadata  string
	Queue     []byte // the body of a Queue entry; a view of the payload when it was parsed
}

// AppendHead begins a payload; entries follow.
func AppendHead(b []byte) []byte { return append(b, frameVersion) }

// Append appends the entry to a payload.
func (e *Entry) Append(b []byte) []byte {
	b = append(b, byte(e.Kind))
	b = binary.AppendUvarint(b, uint64(len(e.Group)))
	b = append(b, e.Group...)
	switch e.Kind {
	case Commit, Seek:
		b = binary.AppendUvarint(b, uint64(commitBytes+len(e.Metadata)))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Epoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.BigEndian.AppendUint32(b, uint32(e.LastEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Time))
		return append(b, e.Metadata...)
	case Own:
		b = binary.AppendUvarint(b, 8)
		return binary.BigEndian.AppendUint64(b, uint64(e.Epoch))
	case Queue:
		b = binary.AppendUvarint(b, uint64(len(e.Queue)))
		return append(b, e.Queue...)
	}
	return binary.AppendUvarint(b, 0)
}

// Parse hands on each entry of a payload, in order.
func Parse(payload []byte, each func(*Entry) error) error {
	if len(payload) == 0 || payload[0] != frameVersion {
		return fmt.Errorf("cursor frame of %d bytes: not of version %d, which this build reads", len(payload), frameVersion)
	}
	for rest := payload[1:]; len(rest) > 0; {
		e := Entry{Kind: Kind(rest[0]), LastEpoch: -1}
		group, after, ok := cut(rest[1:])
		if !ok {
			return fmt.Errorf("cursor frame of %d bytes: an entry is cut short", len(payload))
		}
		body, after, ok := cut(after)
		if !ok {
			return fmt.Errorf("cursor frame of %d bytes: the body of an entry is cut short", len(payload))
		}
		e.Group, rest = string(group), after
		switch {
		case (e.Kind == Commit || e.Kind == Seek) && len(body) >= commitBytes:
			e.Epoch = int64(binary.BigEndian.Uint64(body))
			e.Offset = int64(binary.BigEndian.Uint64(body[8:]))
			e.LastEpoch = int32(binary.BigEndian.Uint32(body[16:]))
			e.Time = int64(binary.BigEndian.Uint64(body[20:]))
			e.Metadata = string(body[commitBytes:])
		case e.Kind == Own && len(body) == 8:
			e.Epoch = int64(binary.BigEndian.Uint64(body))
		case e.Kind == Forget && len(body) == 0:
		case e.Kind == Queue:
			e.Queue = body
		default:
			return fmt.Errorf("cursor frame of %d bytes: entry of kind %d with a body of %d bytes, which this build does not read", len(payload), e.Kind, len(body))
		}
		if err := each(&e); err != nil {
			return err
		}
	}
	return nil
}

// cut reads a length and the bytes behind it.
func cut(b []byte) (head, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	return b[width : width+int(n)], b[width+int(n):], true
}
