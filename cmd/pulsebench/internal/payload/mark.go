package payload

import "encoding/binary"

// MarkBytes is the size of a mark, and the smallest record value that a run sends.
const MarkBytes = 40

// markMagic begins every record of a run: "PMQB" in ASCII.
const markMagic = 0x504d5142

// Where the fields of a mark lie.
const (
	markRecordsAt  = 4
	markRunAt      = 8
	markProducerAt = 16
	markIndexAt    = 20
	markCounterAt  = 24
	markSentAt     = 32
)

// Run tells the records of one call of pulsebench from those of all others.
type Run uint64

// Mark is what a record says about itself.
type Mark struct {
	Records  uint32 // records that this mark speaks for: this one and those behind it in the batch
	Run      Run
	Producer uint32 // from 0
	Index    uint32 // place of the record among those that the mark speaks for
	Counter  uint64 // from 0 for each producer, one more with each mark
	Sent     int64  // nanoseconds on the run's clock, when it was due to be sent
}

// Put writes the mark over the first MarkBytes of a value.
func (m *Mark) Put(value []byte) {
	be := binary.BigEndian
	value = value[:MarkBytes:MarkBytes]
	be.PutUint32(value, markMagic)
	be.PutUint32(value[markRecordsAt:], m.Records)
	be.PutUint64(value[markRunAt:], uint64(m.Run))
	be.PutUint32(value[markProducerAt:], m.Producer)
	be.PutUint32(value[markIndexAt:], m.Index)
	be.PutUint64(value[markCounterAt:], m.Counter)
	be.PutUint64(value[markSentAt:], uint64(m.Sent))
}

// ReadMark reads the mark of a record's value; false when it has none.
func ReadMark(value []byte) (Mark, bool) {
	be := binary.BigEndian
	if len(value) < MarkBytes || be.Uint32(value) != markMagic {
		return Mark{}, false
	}
	return Mark{
		Records:  be.Uint32(value[markRecordsAt:]),
		Run:      Run(be.Uint64(value[markRunAt:])),
		Producer: be.Uint32(value[markProducerAt:]),
		Index:    be.Uint32(value[markIndexAt:]),
		Counter:  be.Uint64(value[markCounterAt:]),
		Sent:     int64(be.Uint64(value[markSentAt:])),
	}, true
}

// fillerAlphabet has sixteen letters, so that what a compressor can gain is the same in every run: about half.
const fillerAlphabet = "pulsemqdrainbtgo"

// fill writes letters that look random and are the same for every run, so that figures can be compared.
func fill(value []byte, seed uint64) {
	state := seed*0x9e3779b97f4a7c15 + 1
	for i := range value {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		value[i] = fillerAlphabet[state>>60]
	}
}

// NewValue makes a record's value of the given size with room for a mark at its front; the index makes its filler
// differ from that of other records.
func NewValue(bytes int, index uint32) []byte {
	value := make([]byte, bytes)
	fill(value, uint64(index))
	return value
}
