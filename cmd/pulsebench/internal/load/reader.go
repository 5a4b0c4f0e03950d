package load

import (
	"bytes"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

// decompressedBytesMax bounds what one batch becomes.
const decompressedBytesMax = 256 << 20

// Account is told what lies in the log: a ledger, or a survey when nobody knows what should be there.
type Account interface {
	// Find takes a mark; false when it is of no interest.
	Find(mark payload.Mark, at ledger.Place) bool
	// Damage takes a batch that is not as it was sent.
	Damage(at ledger.Place, problem string)
	// Hole takes offsets that are missing in front of a place.
	Hole(at ledger.Place, offsets int64)
	// Again takes offsets that were read once more, from a place on.
	Again(at ledger.Place, offsets int64)
}

// Reader looks at what one fetcher reads. It belongs to that fetcher.
type Reader struct {
	Account  Account
	Template *payload.Template       // recognises the run's own batches quickly; may be nil
	Filler   []byte                  // what follows the mark in each record of a run without batches of its own; may be nil
	Latency  *hdrhistogram.Histogram // end to end; nil when it is not measured
	Foreign  int64                   // records that no run of this program sent
	iterator proto.RecordIterator
}

// Read takes whole batches of a partition, one after the other, and moves the cursor behind them. It returns how many
// records they hold from the cursor on, and how many batches that are.
func (r *Reader) Read(c *Cursor, batches []byte, now int64) (records, count int64, err error) {
	for len(batches) > 0 {
		batch, rest, err := proto.NextBatch(batches)
		if err != nil {
			return records, count, err
		}
		batches = rest
		if batch.LastOffset() < c.Next {
			continue
		}
		if gap := batch.BaseOffset() - c.Next; gap > 0 {
			r.Account.Hole(ledger.Place{Partition: c.Number, BaseOffset: batch.BaseOffset()}, gap)
		}
		records += batch.NextOffset() - max(batch.BaseOffset(), c.Next)
		count++
		r.batch(c, batch, now)
		c.Next = batch.NextOffset()
	}
	return records, count, nil
}

// batch recognises one batch.
func (r *Reader) batch(c *Cursor, batch proto.Batch, now int64) {
	at := ledger.Place{Partition: c.Number, BaseOffset: batch.BaseOffset()}
	if r.Template != nil {
		if mark, ok := r.Template.Match(batch); ok {
			r.found(mark, at, now)
			return
		}
	}
	err := batch.ValidateCRC()
	if err == nil {
		err = r.iterator.Reset(batch, decompressedBytesMax)
	}
	if err != nil {
		r.Account.Damage(at, err.Error())
		return
	}
	for r.iterator.Next() {
		if !r.record(c, now) {
			return
		}
	}
	if err := r.iterator.Err(); err != nil {
		r.Account.Damage(at, err.Error())
	}
}

// record recognises one record of a batch that the template did not make; false when the rest of the batch needs no
// look.
func (r *Reader) record(c *Cursor, now int64) (more bool) {
	record := r.iterator.Record()
	at := ledger.Place{Partition: c.Number, BaseOffset: record.Offset}
	mark, ok := payload.ReadMark(record.Value)
	switch {
	case !ok:
		r.Foreign++
	case r.Template != nil && mark.Run == r.Template.Spec().Run:
		r.Account.Damage(at, "a batch of this run is not as it was sent, although its checksum is right")
		return false
	case r.Filler != nil && !bytes.Equal(record.Value[payload.MarkBytes:], r.Filler):
		if r.found(mark, at, now) {
			r.Account.Damage(at, "the record's value is not as it was sent, although its checksum is right")
		}
	case mark.Index == 0:
		r.found(mark, at, now)
	}
	// The other records of a mark say nothing that its checksum has not said.
	return mark.Records <= 1
}

func (r *Reader) found(mark payload.Mark, at ledger.Place, now int64) bool {
	ours := r.Account.Find(mark, at)
	if ours && r.Latency != nil {
		Record(r.Latency, now-mark.Sent)
	}
	return ours
}
