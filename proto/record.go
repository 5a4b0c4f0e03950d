package proto

import "fmt"

// Record is one message. A nil key or value is null, an empty one is empty; the two are kept apart.
type Record struct {
	Offset    int64
	Timestamp int64 // Unix milliseconds
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is a name and a value that travel with a record. Several headers of a record may have the same name; their
// order is kept. A nil value is null.
type Header struct {
	Key   []byte
	Value []byte
}

// RecordIterator walks over the records of a batch.
//
//	for it.Reset(batch, limit); it.Next(); {
//		use(it.Record())
//	}
//	err := it.Err()
//
// The zero value is ready. One that is used again for batch after batch allocates nothing once its buffers have grown.
type RecordIterator struct {
	origin recordOrigin
	cursor recordCursor
	raw    rawRecord
	record Record
	left   int    // records still to come
	index  int    // of the record that Next reads now
	buffer []byte // decompressed records, used again
	err    error
}

// Reset starts on a batch, which has been through NextBatch or ParseBatch. Compressed records are decompressed here,
// into at most recordBytesMax bytes. Uncompressed ones are read where they lie. The error is that of Err.
func (it *RecordIterator) Reset(b Batch, recordBytesMax int) error {
	it.index, it.left, it.err = 0, int(b.Count()), nil
	it.origin = originOf(b)
	it.cursor = recordCursor{b: b.Records()}
	if codec := b.Codec(); codec != CodecNone && it.left > 0 {
		plain, err := Decompress(it.buffer[:0], codec, b.Records(), recordBytesMax)
		if err != nil {
			it.left, it.err = 0, err
			it.cursor = recordCursor{}
			return err
		}
		it.buffer = plain
		it.cursor = recordCursor{b: plain}
	}
	return nil
}

// Next reads the next record; false at the end and at the first one that is damaged.
func (it *RecordIterator) Next() bool {
	if it.left == 0 {
		if it.err == nil && it.cursor.off != len(it.cursor.b) {
			it.err = it.problem(CodeCorruptBatch, fmt.Sprintf("%d bytes after the last record", len(it.cursor.b)-it.cursor.off))
		}
		return false
	}
	if problem := it.cursor.nextOf(&it.origin, &it.raw, &it.record); problem != problemNone {
		it.left, it.err = 0, it.problem(CodeCorruptBatch, problem.String())
		it.cursor = recordCursor{}
		return false
	}
	it.left--
	it.index++
	return true
}

func (it *RecordIterator) problem(code Code, text string) error {
	return &BatchError{Code: code, Record: it.index, Offset: it.cursor.off, Problem: text}
}

// Record is the record that Next has read. It is the iterator's own: the next call of Next writes over it. Its bytes are
// slices of the batch, or of the iterator's buffer when the batch is compressed, where Reset writes over them.
func (it *RecordIterator) Record() *Record { return &it.record }

// Err says what ended the walk early; nil when all records were read.
func (it *RecordIterator) Err() error { return it.err }
