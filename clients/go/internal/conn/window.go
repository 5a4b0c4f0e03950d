package conn

// window is what the broker lets be unanswered at one time. CREDIT may make it smaller than what is in flight; then
// nothing is admitted until enough has been answered.
type window struct {
	bytesMax    uint64
	requestsMax uint32
	bytes       uint64
	requests    uint32
}

// admit takes room for one request; false when there is none now. A request alone may be larger than the window: a
// broker with many connections grants windows that are smaller than the largest batch.
func (w *window) admit(payloadBytes int) bool {
	if w.requests >= w.requestsMax || w.requests > 0 && w.bytes+uint64(payloadBytes) > w.bytesMax {
		return false
	}
	w.requests++
	w.bytes += uint64(payloadBytes)
	return true
}

// release gives the room of an answered request back.
func (w *window) release(payloadBytes int) {
	w.requests--
	w.bytes -= uint64(payloadBytes)
}
