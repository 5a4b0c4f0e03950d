package deadletter

import (
	"errors"
	"fmt"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// gatherBytesMax bounds the dead letters of one batch before compression, unless one alone is larger.
	gatherBytesMax = 256 << 10

	// openingsMax bounds how often one composition begins to walk through a batch. Deaths come in any order, and each
	// step back is another walk.
	openingsMax = 32

	// decompressedBytesMax bounds what a source batch may become; the broker opens no more for any purpose.
	decompressedBytesMax = 64 << 20
)

// Origin is where records die.
type Origin struct {
	Topic     string
	Partition uint32
	Group     string
}

// Death is one record that was given up.
type Death struct {
	Offset   int64
	Attempts uint32
	Reason   string // one word
	Text     string // what the member said
}

// Obstacle is why a record cannot become a dead letter.
type Obstacle uint8

const (
	// NoObstacle is that of records that can.
	NoObstacle Obstacle = iota
	// Gone: there is no record at the offset any more; compaction has removed it.
	Gone
	// Damaged: the batch cannot be opened.
	Damaged
	// TooLarge: with the shortest provenance it is still more than the dead-letter topic takes.
	TooLarge
	// Elsewhere: the offset lies in none of the batches.
	Elsewhere
)

// Composition is what became of a list of deaths.
type Composition struct {
	// Batch holds the dead letters of the first Letters deaths, in their order. It is the composer's own, and good until
	// its next composition.
	Batch   proto.Batch
	Letters int
	// Obstacle is why the first death gave no letter; NoObstacle when it did. Err says more of it.
	Obstacle Obstacle
	Err      error
}

// Composer makes batches of dead letters. One that is used again needs little new memory.
type Composer struct {
	builder proto.BatchBuilder
	it      proto.RecordIterator
	headers []proto.Header

	source   [][]byte // whole batches, one after the other in each
	batch    proto.Batch
	done     int64 // the iterator has passed the offsets of batch up to here
	openings int
}

// Compose makes dead letters of as many deaths as one batch holds, from the first on. source is what was read of the
// records' partition. now is the time of the letters in Unix milliseconds. bytesMax is the most that the dead-letter
// topic takes, in bytes of a batch: of a record that is larger with its provenance what the member said is left out.
func (c *Composer) Compose(source [][]byte, origin Origin, deaths []Death, now int64, bytesMax int) Composition {
	c.source, c.batch, c.openings = source, nil, 0
	defer func() { c.source, c.batch = nil, nil }()
	room := min(bytesMax, gatherBytesMax)
	for n := range deaths {
		obstacle, err := c.find(deaths[n].Offset)
		switch {
		case obstacle != NoObstacle && n == 0:
			return Composition{Obstacle: obstacle, Err: err}
		case obstacle != NoObstacle:
			return c.built(n)
		case n == 0:
			c.builder.Reset(c.batch.Codec())
		}
		letter := c.letter(origin, &deaths[n], now)
		large := c.builder.BytesWith(&letter) > room
		if large && n > 0 {
			return c.built(n)
		}
		if large {
			return c.alone(origin, &deaths[0], letter, bytesMax)
		}
		err = c.builder.Append(&letter)
		core.Assert(err == nil, "a small record fits a batch")
	}
	return c.built(len(deaths))
}

// letter is the record that the iterator stands on, as dead letter.
func (c *Composer) letter(origin Origin, d *Death, now int64) proto.Record {
	r := c.it.Record()
	p := Provenance{
		Topic: origin.Topic, Partition: origin.Partition, Offset: d.Offset, Timestamp: max(0, r.Timestamp), Group: origin.Group,
		Attempts: d.Attempts, Reason: d.Reason, Text: d.Text,
	}
	c.headers = p.AppendHeaders(c.headers[:0], r.Headers)
	return proto.Record{Timestamp: max(0, now), Key: r.Key, Value: r.Value, Headers: c.headers}
}

// alone makes a batch of one large record.
func (c *Composer) alone(origin Origin, d *Death, letter proto.Record, bytesMax int) Composition {
	for short := *d; ; short.Text = "" {
		c.builder.Reset(c.batch.Codec())
		err := c.builder.Append(&letter)
		if err == nil {
			var batch proto.Batch
			if batch, err = c.builder.Build(); err == nil && len(batch) <= bytesMax {
				return Composition{Batch: batch, Letters: 1}
			}
			if err == nil {
				err = fmt.Errorf("it has %d bytes with its provenance, the dead-letter topic takes %d (max.message.bytes)", len(batch), bytesMax)
			}
		}
		if short.Text == "" {
			return Composition{Obstacle: TooLarge, Err: err}
		}
		letter = c.letter(origin, &Death{Offset: d.Offset, Attempts: d.Attempts, Reason: d.Reason}, letter.Timestamp)
	}
}

func (c *Composer) built(letters int) Composition {
	if letters == 0 {
		return Composition{}
	}
	batch, err := c.builder.Build()
	core.Assert(err == nil, "a batch of records can be built")
	return Composition{Batch: batch, Letters: letters}
}

// find moves the iterator to the record at an offset.
func (c *Composer) find(offset int64) (Obstacle, error) {
	if c.batch == nil || offset < c.batch.BaseOffset() || offset > c.batch.LastOffset() || offset <= c.done {
		batch, err := c.covering(offset)
		if err != nil {
			return Damaged, err
		}
		if batch == nil || c.openings == openingsMax {
			return Elsewhere, fmt.Errorf("offset %d is in none of the batches that were read", offset)
		}
		c.openings++
		c.batch, c.done = batch, batch.BaseOffset()-1
		if err := c.batch.ValidateCRC(); err != nil {
			return Damaged, err
		}
		if err := c.it.Reset(c.batch, decompressedBytesMax); err != nil {
			return Damaged, err
		}
	}
	for c.it.Next() {
		c.done = c.it.Record().Offset
		if c.done == offset {
			return NoObstacle, nil
		}
		if c.done > offset {
			break
		}
	}
	if err := c.it.Err(); err != nil {
		return Damaged, err
	}
	return Gone, errGone
}

var errGone = errors.New("there is no record at the offset any more")

// covering is the batch that an offset lies in, or nil.
func (c *Composer) covering(offset int64) (proto.Batch, error) {
	for _, rest := range c.source {
		for len(rest) > 0 {
			batch, behind, err := proto.NextBatch(rest)
			if err != nil {
				return nil, err
			}
			if offset >= batch.BaseOffset() && offset <= batch.LastOffset() {
				return batch, nil
			}
			rest = behind
		}
	}
	return nil, nil
}
