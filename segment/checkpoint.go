package segment

import (
	"encoding/binary"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
)

// checkpointEntryBytes is the size of one entry:
//
//	0 partition u64 | 8 term u32 | 12 vote u32 | 16 commit u64 | 24 generation u32 | 28 segment u32 |
//	32 generation start u64 | 40 log start u64 | 48 position u64 | 56 sealed index u64 |
//	64 sealed next offset u64 | 72 durable index u64
const checkpointEntryBytes = 80

// SealedPoint is a place in a partition's segments below which everything is
// durable in segments: recovery reads from there.
type SealedPoint struct {
	Segment    core.SegmentNumber // 0: no segment yet
	Position   int64              // in the segment's file, 4 KiB aligned
	Index      core.Index         // of the last frame below the position
	NextOffset core.Offset        // after that frame
}

// checkpointJournal is the partition id of the journal's own entry. Its Commit is
// the first group that is needed: those below it were freed by recycling, and
// what is left of them in a file must not be replayed.
const checkpointJournal core.PartitionID = 0

// Checkpoint repeats what the journal knows of one partition, so that the file
// in which it stood can be recycled. Each entry stands for itself.
type Checkpoint struct {
	Partition       core.PartitionID
	Term            core.Term
	Vote            uint32 // replica voted for in Term; 0 none
	Commit          core.Index
	Generation      core.Generation
	GenerationStart core.Index
	LogStart        core.Offset
	Sealed          SealedPoint
	Durable         core.Index // highest index known durable
}

// AppendCheckpoint appends the entry's encoding to b.
func AppendCheckpoint(b []byte, c *Checkpoint) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(c.Partition))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Term))
	b = binary.BigEndian.AppendUint32(b, c.Vote)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Commit))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Generation))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Sealed.Segment))
	b = binary.BigEndian.AppendUint64(b, uint64(c.GenerationStart))
	b = binary.BigEndian.AppendUint64(b, uint64(c.LogStart))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Sealed.Position))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Sealed.Index))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Sealed.NextOffset))
	return binary.BigEndian.AppendUint64(b, uint64(c.Durable))
}

// ParseCheckpoints calls each for every entry of a checkpoint frame's payload.
func ParseCheckpoints(payload []byte, each func(*Checkpoint)) error {
	if len(payload)%checkpointEntryBytes != 0 {
		return fmt.Errorf("checkpoint: payload of %d bytes is no multiple of %d", len(payload), checkpointEntryBytes)
	}
	for ; len(payload) > 0; payload = payload[checkpointEntryBytes:] {
		b := payload
		each(&Checkpoint{
			Partition:       core.PartitionID(binary.BigEndian.Uint64(b)),
			Term:            core.Term(binary.BigEndian.Uint32(b[8:])),
			Vote:            binary.BigEndian.Uint32(b[12:]),
			Commit:          core.Index(binary.BigEndian.Uint64(b[16:])),
			Generation:      core.Generation(binary.BigEndian.Uint32(b[24:])),
			GenerationStart: core.Index(binary.BigEndian.Uint64(b[32:])),
			LogStart:        core.Offset(binary.BigEndian.Uint64(b[40:])),
			Sealed: SealedPoint{
				Segment:    core.SegmentNumber(binary.BigEndian.Uint32(b[28:])),
				Position:   int64(binary.BigEndian.Uint64(b[48:])),
				Index:      core.Index(binary.BigEndian.Uint64(b[56:])),
				NextOffset: core.Offset(binary.BigEndian.Uint64(b[64:])),
			},
			Durable: core.Index(binary.BigEndian.Uint64(b[72:])),
		})
	}
	return nil
}
