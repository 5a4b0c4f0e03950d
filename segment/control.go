package segment

import (
	"encoding/binary"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

// ControlKind says what a control frame changes.
type ControlKind uint8

// ControlLogStart moves the partition's log start offset forward.
const ControlLogStart ControlKind = 1

const controlLogStartBytes = 1 + 8

// AppendLogStart appends the payload of a control frame that moves the log start.
func AppendLogStart(b []byte, start core.Offset) []byte {
	b = append(b, uint8(ControlLogStart))
	return binary.BigEndian.AppendUint64(b, uint64(start))
}

// ParseLogStart decodes such a payload.
func ParseLogStart(payload []byte) (core.Offset, error) {
	if len(payload) != controlLogStartBytes || ControlKind(payload[0]) != ControlLogStart {
		return 0, fmt.Errorf("control frame: payload of %d bytes is no log start", len(payload))
	}
	return core.Offset(binary.BigEndian.Uint64(payload[1:])), nil
}
