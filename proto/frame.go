package proto

import (
	"encoding/binary"
	"fmt"
)

const (
	// FrameHeaderBytes is the size of a frame's header on the wire.
	FrameHeaderBytes = 14

	// frameLengthMin is what the length field counts of the header: version, command and request id.
	frameLengthMin = FrameHeaderBytes - 4

	// answerBit marks the command byte of an answer.
	answerBit = 0x80

	// ServerIDBit is the top bit of a request id. It is set in the ids of requests that the broker starts and in no
	// other.
	ServerIDBit = 1 << 63

	// Magic is the protocol marker in HELLO: "PMQ1" in ASCII.
	Magic = 0x504D5131
)

// FrameHeader is the start of every frame:
//
//	length u32 | version u8 | command u8 | request id u64
//
// Invariant: Length counts everything after the length field, so it is at least 10.
type FrameHeader struct {
	Length    uint32 // bytes after the length field
	Version   uint8  // version of the command
	Command   Command
	Answer    bool
	RequestID uint64 // 0 only in an ERROR that speaks about the connection
}

// FrameError says that the framing is broken: nothing after it on the connection can be understood.
type FrameError struct {
	Code   Code // FRAME_TOO_LARGE or MALFORMED_REQUEST
	Length uint32
	Max    uint32
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("frame length %d is not allowed: it is %d to %d", e.Length, frameLengthMin, e.Max)
}

// Unwrap lets errors.Is find the code.
func (e *FrameError) Unwrap() error { return e.Code }

// PayloadBytes is the number of bytes that follow the header.
func (h *FrameHeader) PayloadBytes() int { return int(h.Length) - frameLengthMin }

// FrameBytes is the size of the whole frame, the length field included.
func (h *FrameHeader) FrameBytes() int { return int(h.Length) + 4 }

// DecodeFrameHeader reads a header from the start of b. With fewer than FrameHeaderBytes in b it returns false and no
// error, unless the length alone shows that the framing is broken. lengthMax bounds the length field.
func DecodeFrameHeader(b []byte, lengthMax uint32) (FrameHeader, bool, error) {
	if len(b) < 4 {
		return FrameHeader{}, false, nil
	}
	length := binary.BigEndian.Uint32(b)
	if length < frameLengthMin {
		return FrameHeader{}, false, &FrameError{Code: CodeMalformedRequest, Length: length, Max: lengthMax}
	}
	if length > lengthMax {
		return FrameHeader{}, false, &FrameError{Code: CodeFrameTooLarge, Length: length, Max: lengthMax}
	}
	if len(b) < FrameHeaderBytes {
		return FrameHeader{}, false, nil
	}
	return FrameHeader{
		Length:    length,
		Version:   b[4],
		Command:   Command(b[5] &^ answerBit),
		Answer:    b[5]&answerBit != 0,
		RequestID: binary.BigEndian.Uint64(b[6:]),
	}, true, nil
}

// AppendFrameHeader appends the header of a frame with payloadBytes of payload. It sets the length itself.
func AppendFrameHeader(b []byte, h FrameHeader, payloadBytes int) []byte {
	command := byte(h.Command)
	if h.Answer {
		command |= answerBit
	}
	b = binary.BigEndian.AppendUint32(b, uint32(payloadBytes+frameLengthMin))
	b = append(b, h.Version, command)
	return binary.BigEndian.AppendUint64(b, h.RequestID)
}

// Message is the payload of a frame: one of the generated request, response and push structures.
type Message interface {
	Command() Command
	IsAnswer() bool
	Size() int
	AppendTo(b []byte) []byte
	Decode(b []byte) error
}

// AppendFrame appends a whole frame around a message, in the version of the command that this package speaks.
func AppendFrame(b []byte, requestID uint64, m Message) []byte {
	h := FrameHeader{Version: m.Command().Version(), Command: m.Command(), Answer: m.IsAnswer(), RequestID: requestID}
	return m.AppendTo(AppendFrameHeader(b, h, m.Size()))
}

// BeginFrame appends a header whose length EndFrame sets once the payload has been appended: for payloads that are
// gathered piece by piece. It returns where the frame begins in b.
func BeginFrame(b []byte, h FrameHeader) ([]byte, int) {
	start := len(b)
	return AppendFrameHeader(b, h, 0), start
}

// EndFrame sets the length of the frame that begins at start and ends with b; trailing counts bytes that will follow b
// on the wire without being copied into it.
func EndFrame(b []byte, start, trailing int) {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4+trailing))
}
