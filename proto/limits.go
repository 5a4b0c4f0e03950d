package proto

// What a broker allows in a SETTLE and a LEASE, in milliseconds: clients check it before they send, since one value outside
// has the whole request refused.
const (
	NackDelayMsMax    = 7 * 24 * 3600 * 1000 // of a nack; 0 leaves it to the topic
	LeaseTimeoutMsMin = 100                  // of an extend and of a LEASE; 0 leaves it as it is
	LeaseTimeoutMsMax = 24 * 3600 * 1000
)
