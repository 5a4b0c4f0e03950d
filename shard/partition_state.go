package shard

import (
	"encoding/binary"
	"fmt"
)

// The derived state of a partition is that of its producers alone, as it has always been
// written, or sections:
//
//	version u16 (2) | sections: kind u8 (1 producers, 2 cursors, 3 queues) | length u32 | bytes
//
// That of a partition of the groups' topic is its coordinator's.
const (
	partitionStateVersion   = 2
	partitionStateProducers = 1
	partitionStateCursors   = 2
	partitionStateQueues    = 3 // behind the cursors; only when a queue group has begun
)

// Snapshot appends the derived state at the log's end.
func (p *partition) Snapshot(b []byte) []byte {
	if p.coordinator != nil {
		return p.coordinator.snapshot(b)
	}
	if p.cursors == nil || p.cursors.table.Groups() == 0 && p.cursors.waiting.Len() == 0 {
		return p.producers.appendState(b)
	}
	b = binary.BigEndian.AppendUint16(b, partitionStateVersion)
	b = appendSection(b, partitionStateProducers, p.producers.appendState)
	table := p.cursors.snapshot()
	b = appendSection(b, partitionStateCursors, table.AppendSnapshot)
	if table.Queues() > 0 {
		b = appendSection(b, partitionStateQueues, table.AppendQueues)
	}
	return b
}

func appendSection(b []byte, kind byte, appendTo func([]byte) []byte) []byte {
	b = append(b, kind, 0, 0, 0, 0)
	start := len(b)
	b = appendTo(b)
	binary.BigEndian.PutUint32(b[start-4:], uint32(len(b)-start))
	return b
}

// Restore sets the derived state.
func (p *partition) Restore(state []byte) error {
	if p.coordinator != nil {
		return p.coordinator.restore(state)
	}
	if len(state) < 2 || binary.BigEndian.Uint16(state) != partitionStateVersion {
		return p.producers.restore(state)
	}
	p.producers.reset()
	for rest := state[2:]; len(rest) > 0; {
		if len(rest) < 5 || uint64(binary.BigEndian.Uint32(rest[1:])) > uint64(len(rest)-5) {
			return fmt.Errorf("partition state of %d bytes: a section is cut short", len(state))
		}
		kind, n := rest[0], int(binary.BigEndian.Uint32(rest[1:]))
		section := rest[5 : 5+n]
		rest = rest[5+n:]
		var err error
		switch kind {
		case partitionStateProducers:
			err = p.producers.restore(section)
		case partitionStateCursors:
			err = p.cursorsFor().table.Restore(section)
		case partitionStateQueues:
			err = p.cursorsFor().table.RestoreQueues(section)
		default:
			err = fmt.Errorf("partition state of %d bytes: a section of kind %d, which this build does not read", len(state), kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
