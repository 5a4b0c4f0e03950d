package core

import "fmt"

// Durability is what an acknowledgement promises, and how far a frame has come.
// The order of the values is the order of the promises.
type Durability uint8

const (
	// DurabilityNone acks what is accepted in memory.
	DurabilityNone Durability = iota
	// DurabilityBatch acks what was written; it is synced every flush.ms or flush.bytes.
	DurabilityBatch
	// DurabilitySync acks what an fdatasync has made durable.
	DurabilitySync
)

var durabilityNames = [...]string{"none", "batch", "sync"}

// String returns the value as configuration writes it.
func (d Durability) String() string {
	if int(d) < len(durabilityNames) {
		return durabilityNames[d]
	}
	return fmt.Sprintf("durability(%d)", uint8(d))
}

// ParseDurability reads sync, batch or none.
func ParseDurability(s string) (Durability, error) {
	for i, name := range durabilityNames {
		if s == name {
			return Durability(i), nil
		}
	}
	return 0, fmt.Errorf("durability %q: allowed are sync, batch and none", s)
}
