package proto

import "math"

// ValidateHeader checks the header of a batch that a producer sent. b holds at least the first BatchHeaderBytes of the
// batch, batchBytes is how many bytes were sent in all. It needs no more than the header, so it can refuse a batch
// before the records have arrived. The error is a *BatchError.
func ValidateHeader(b []byte, batchBytes int) error {
	if err := ValidateStoredHeader(b, batchBytes); err != nil {
		return err
	}
	h := Batch(b)
	switch {
	case h.attributes()&attributeAppendTime != 0:
		return batchErrorf(CodeInvalidTimestamp, batchAttributesAt, "the timestamp type bit is the broker's to set")
	case h.LastOffsetDelta() != h.Count()-1:
		return batchErrorf(CodeCorruptBatch, batchLastOffsetDeltaAt,
			"the last offset delta is %d with %d records: it is one less than their number, of which there is at least one", h.LastOffsetDelta(), h.Count())
	}
	return nil
}

// ValidateStoredHeader checks the header of a batch that a broker stored or sent: as ValidateHeader, but the broker's
// own time is allowed and compaction may have left gaps between the records, or none of them.
func ValidateStoredHeader(b []byte, batchBytes int) error {
	if len(b) < BatchHeaderBytes || batchBytes < BatchHeaderBytes {
		return batchErrorf(CodeCorruptBatch, 0, "%d bytes: a batch has at least %d", min(len(b), batchBytes), BatchHeaderBytes)
	}
	h := Batch(b)
	// Magic comes first: in another version the other fields lie elsewhere.
	if magic := int8(b[batchMagicAt]); magic != batchMagic {
		return batchErrorf(CodeCorruptBatch, batchMagicAt, "magic %d: only 2 is served", magic)
	}
	if n, _ := BatchBytes(b); n != int64(batchBytes) {
		return batchErrorf(CodeCorruptBatch, batchLengthAt, "the length field makes the batch %d bytes, there are %d", n, batchBytes)
	}
	attributes := h.attributes()
	if attributes&(attributeTransactional|attributeControl|attributeUnknownMask) != 0 {
		return batchErrorf(CodeCorruptBatch, batchAttributesAt,
			"attributes %#04x: only the codec and the timestamp type are served", attributes)
	}
	if codec := h.Codec(); !codec.Valid() {
		return batchErrorf(CodeUnsupportedCompression, batchAttributesAt,
			"codec %d: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd are served", codec)
	}
	count, last := h.Count(), h.LastOffsetDelta()
	if count < 0 || last < 0 || count-1 > last {
		return batchErrorf(CodeCorruptBatch, batchCountAt, "%d records with a last offset delta of %d", count, last)
	}
	if h.Codec() == CodecNone && int(count) > (batchBytes-BatchHeaderBytes)/recordBytesMin {
		return batchErrorf(CodeCorruptBatch, batchCountAt, "%d records do not fit in %d bytes", count, batchBytes-BatchHeaderBytes)
	}
	if base, top := h.BaseTimestamp(), h.MaxTimestamp(); base < 0 || top < 0 {
		return batchErrorf(CodeInvalidTimestamp, batchBaseTimestampAt,
			"base timestamp %d, max timestamp %d: a time is not negative", base, top)
	}
	id, epoch, sequence := h.ProducerID(), h.ProducerEpoch(), h.BaseSequence()
	none := id == ProducerIDNone && epoch == ProducerEpochNone && sequence == SequenceNone
	if !none && (id < 0 || epoch < 0 || sequence < 0) {
		return batchErrorf(CodeCorruptBatch, batchProducerIDAt,
			"producer id %d, epoch %d, sequence %d: all are -1 or none is negative", id, epoch, sequence)
	}
	return nil
}

// ValidateCRC compares the batch with its checksum, reading all of it.
func (b Batch) ValidateCRC() error {
	return b.matchCRC(CRC(b[batchAttributesAt:]))
}

// ValidateCRCParts compares the batch with its checksum when that of the record area is known already, as it is when
// it was computed while the records were copied.
func (b Batch) ValidateCRCParts(recordsCRC uint32) error {
	return b.matchCRC(CRCCombine(CRC(b.coveredHeader()), recordsCRC, len(b)-BatchHeaderBytes))
}

func (b Batch) matchCRC(crc uint32) error {
	if stored := b.StoredCRC(); crc != stored {
		return batchErrorf(CodeCorruptBatch, batchCRCAt, "the checksum is %#08x, the bytes make %#08x", stored, crc)
	}
	return nil
}

// ValidateRecords walks over uncompressed records and holds a produced batch to its header: lengths add up to the last
// byte, offset deltas count from 0, the max timestamp is that of the latest record. It allocates nothing. Compressed
// records are not opened: see ValidateDecompressed. The error is a *BatchError.
func (b Batch) ValidateRecords() error {
	if b.Codec() != CodecNone {
		return nil
	}
	return b.validateRecords(b.Records(), BatchHeaderBytes)
}

// ValidateDecompressed does what ValidateRecords does with the decompressed record area of the batch.
func (b Batch) ValidateDecompressed(records []byte) error {
	return b.validateRecords(records, 0)
}

// validateRecords walks over records; at is where they begin in what the error's offsets count from.
func (b Batch) validateRecords(records []byte, at int) error {
	c := recordCursor{b: records}
	base, latest := b.BaseTimestamp(), int64(math.MinInt64)
	count := int(b.Count())
	var r rawRecord
	for i := range count {
		problem := c.next(&r)
		if problem == problemNone && int(r.offsetDelta) != i {
			problem = problemOffsetDelta
		}
		if problem != problemNone {
			return &BatchError{Code: CodeCorruptBatch, Record: i, Offset: at + c.off, Problem: problem.String()}
		}
		timestamp := base + r.timestampDelta
		if timestamp < 0 { // also when the sum overflows: base is not negative
			return &BatchError{Code: CodeInvalidTimestamp, Record: i, Offset: at + c.off, Problem: "a time is not negative"}
		}
		latest = max(latest, timestamp)
	}
	if c.off != len(records) {
		return batchErrorf(CodeCorruptBatch, at+c.off, "%d bytes after the last record", len(records)-c.off)
	}
	if b.TimestampType() == TimestampCreate && latest != b.MaxTimestamp() {
		return batchErrorf(CodeInvalidTimestamp, batchMaxTimestampAt,
			"the max timestamp is %d, the latest record has %d", b.MaxTimestamp(), latest)
	}
	return nil
}
