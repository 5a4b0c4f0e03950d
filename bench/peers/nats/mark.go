package nats

import "encoding/binary"

// MarkBytes is the size of what every message begins with: its producer and its place among that producer's.
const MarkBytes = 12

func putMark(payload []byte, producer uint32, counter uint64) {
	binary.BigEndian.PutUint32(payload, producer)
	binary.BigEndian.PutUint64(payload[4:], counter)
}

func readMark(payload []byte) (producer uint32, counter uint64, ok bool) {
	if len(payload) < MarkBytes {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(payload), binary.BigEndian.Uint64(payload[4:]), true
}

// newPayload is a message with letters out of sixteen behind the mark, as PulseMQ's load has them.
func newPayload(bytes int) []byte {
	payload := make([]byte, bytes)
	state := uint64(1)
	for i := range payload {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		payload[i] = "pulsemqdrainbtgo"[state>>60]
	}
	return payload
}
