package segment

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

// Where the scrubber is, for the next start. A pass over many terabytes takes
// longer than a broker runs between two restarts: if each start began anew, the
// last partitions would never be read. The file is a hint: one that is missing,
// damaged or of another layout begins a new pass.
//
//	meta/scrub-NN   0 ended began i64 | 8 pass began i64 | 16 partition id u64 | 24 index u64
const scrubPlaceBytes = 32

// scrubSaveNanos is the least time between two saves within a pass.
const scrubSaveNanos = 60e9

func scrubPlacePath(shard core.ShardID) string { return fmt.Sprintf("%s/scrub-%02d", MetaDir, shard) }

// scrubStart orders the logs and goes on where the last process was.
func (s *Store) scrubStart() {
	c := &s.scrubber
	slices.Sort(c.ids)
	c.savedAt = s.mono
	h, b, err := s.folder.loadMeta(scrubPlacePath(s.shard))
	if err != nil || h.Incarnation != s.folder.Incarnation || h.Layout != s.folder.layout || len(b) != scrubPlaceBytes {
		return
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[i:]) }
	ended, began := int64(at(0)), int64(at(8))
	if ended < 0 || began < 0 || ended > s.wall || began > s.wall { // of another clock
		return
	}
	c.endedBegan, c.passBegan = ended, began
	if began == 0 {
		return
	}
	c.pass = scrubCursor{id: core.PartitionID(at(16)), index: core.Index(at(24)), began: began}
	for id, l := range s.logs {
		if id >= c.pass.id {
			c.passLeft += l.sealedBytes()
		}
	}
}

// scrubSave has the place written down, now or when it is time again.
func (s *Store) scrubSave(now bool) {
	c := &s.scrubber
	if c.saveBusy || s.full || s.stopping || !now && s.mono-c.savedAt < scrubSaveNanos {
		return
	}
	c.savedAt, c.saveBusy = s.mono, true
	// The segment under way is read again from its beginning.
	index := c.pass.index
	if c.current != nil && !c.forAsk {
		index = c.current.header.BaseIndex
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(c.endedBegan))
	b = binary.BigEndian.AppendUint64(b, uint64(c.passBegan))
	b = binary.BigEndian.AppendUint64(b, uint64(c.pass.id))
	b = binary.BigEndian.AppendUint64(b, uint64(index))
	s.submitSmall(&scrubPlaceSave{store: s, body: b})
}

// scrubPlaceSave is the job that writes the place down.
type scrubPlaceSave struct {
	store *Store
	body  []byte
	err   error
}

func (j *scrubPlaceSave) Run() {
	d := j.store.folder // without a copy: it is a hint
	j.err = d.putMeta(scrubPlacePath(j.store.shard), d.metaFile(d.layout, j.body))
}

func (j *scrubPlaceSave) Done() {
	j.store.scrubber.saveBusy = false
	if j.err != nil {
		j.store.log.Debug("the scrubber's place could not be saved; a restart reads more again than it must", "error", j.err)
	}
}
