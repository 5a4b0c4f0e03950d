package core

// Assert stops the process when an invariant of our own code does not hold.
// It guards state that matters, so it stays on in production: call it with O(1)
// conditions and a constant message. Outside input is validated, never asserted.
func Assert(ok bool, message string) {
	if !ok {
		panic("assertion failed: " + message)
	}
}
