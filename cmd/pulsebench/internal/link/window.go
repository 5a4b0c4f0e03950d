package link

// window is what the broker allows to be unanswered on a connection.
//
// Invariant: bytes and requests count what was sent and not answered yet. They may be above their bounds only after the
// broker has lowered them, or by one request that was larger than the whole window and sent alone.
type window struct {
	bytesMax    uint64
	requestsMax uint32
	bytes       uint64
	requests    uint32
}

// admits reports whether a request may be sent now. One that is larger than the window goes when nothing else does.
func (w *window) admits(payloadBytes int) bool {
	if w.requests == 0 {
		return true
	}
	return w.requests < w.requestsMax && w.bytes+uint64(payloadBytes) <= w.bytesMax
}

func (w *window) take(payloadBytes int) {
	w.bytes += uint64(payloadBytes)
	w.requests++
}

func (w *window) giveBack(payloadBytes int) {
	w.bytes -= uint64(payloadBytes)
	w.requests--
}
