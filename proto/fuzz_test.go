package proto

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Every decoder takes any bytes: it refuses them or understands them, and what it understands it can write again. The
// golden vectors are the seeds; go test runs those, go test -fuzz looks for more.

// seedFrames adds the golden frames, and their payloads, to the seeds.
func seedFrames(f *testing.F, add func(message string, frame []byte)) {
	paths, err := filepath.Glob(filepath.Join(vectorsDir, "*.json"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		var v frameFile
		if err := json.Unmarshal(data, &v); err != nil {
			f.Fatal(err)
		}
		for _, frame := range v.Frames {
			add(frame.Message, unhex(f, frame.Frame))
		}
	}
}

// seedBatches adds the golden batches, good and bad, to the seeds.
func seedBatches(f *testing.F, add func(b []byte)) {
	for _, file := range []string{"batches.json", "batches_foreign.json"} {
		var v batchFile
		readVectors(f, file, &v)
		for _, b := range v.Batches {
			add(unhex(f, b.Batch))
		}
	}
	var v invalidFile
	readVectors(f, "invalid.json", &v)
	for _, b := range v.Batches {
		add(unhex(f, b.Bytes))
	}
}

func FuzzFrame(f *testing.F) {
	seedFrames(f, func(_ string, frame []byte) { f.Add(frame) })
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok, err := DecodeFrameHeader(b, 1<<20)
		if err != nil {
			if ok || !errors.Is(err, ErrMalformedRequest) && !errors.Is(err, ErrFrameTooLarge) {
				t.Fatal(h, ok, err)
			}
			return
		}
		if !ok {
			return
		}
		if again := AppendFrameHeader(nil, h, h.PayloadBytes()); !bytes.Equal(again, b[:FrameHeaderBytes]) {
			t.Fatalf("%x became %x", b[:FrameHeaderBytes], again)
		}
	})
}

// fuzzMessages fuzzes the messages of one kind; which one is picked by the first byte of the input.
func fuzzMessages(f *testing.F, kind string, make func(Command) Message) {
	seedFrames(f, func(message string, frame []byte) {
		if bytes.HasSuffix([]byte(message), []byte(kind)) {
			f.Add(frame[5]&^answerBit, frame[FrameHeaderBytes:])
		}
	})
	var v invalidFile
	readVectors(f, "invalid.json", &v)
	for _, p := range v.Payloads {
		for _, info := range Layouts() {
			f.Add(byte(info.Command), unhex(f, p.Bytes))
		}
	}
	f.Fuzz(func(t *testing.T, command byte, b []byte) {
		m := make(Command(command))
		if m == nil {
			return
		}
		taken := checkDecode(t, m, b)
		if head, ok := m.(interface{ DecodeHead([]byte) (int, error) }); ok {
			n, err := head.DecodeHead(b)
			if (err == nil) != taken || taken && n > len(b) {
				t.Fatalf("the head says %d, %v, the whole %v", n, err, taken)
			}
		}
	})
}

func FuzzRequest(f *testing.F)  { fuzzMessages(f, "request", NewRequest) }
func FuzzResponse(f *testing.F) { fuzzMessages(f, "response", NewResponse) }
func FuzzPush(f *testing.F)     { fuzzMessages(f, "push", NewPush) }

// FuzzBatch does with any bytes what a broker and then a consumer do with a batch. When fixed is set the checksum and
// the length are put right first, so that the rules behind them are reached.
func FuzzBatch(f *testing.F) {
	seedBatches(f, func(b []byte) { f.Add(b, false); f.Add(b, true) })
	var it RecordIterator
	f.Fuzz(func(t *testing.T, b []byte, fixed bool) {
		const limit = 1 << 18
		b = bytes.Clone(b)
		if fixed && len(b) >= BatchHeaderBytes {
			n := len(b) - batchLengthUncounted
			copy(b[batchLengthAt:], []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
			Batch(b).setCRC(CRC(b[BatchHeaderBytes:]))
		}
		batch, err := ParseBatch(b)
		produced := ValidateHeader(b, len(b))
		if err != nil {
			if produced == nil {
				t.Fatalf("a producer may send it, a consumer may not read it: %v", err)
			}
			return
		}
		crc := batch.ValidateCRC()
		if (crc == nil) != (batch.ValidateCRCParts(CRC(batch.Records())) == nil) {
			t.Fatal("the checksum and its parts do not agree")
		}
		plain, err := Decompress(nil, batch.Codec(), batch.Records(), limit)
		if err == nil && len(plain) > limit {
			t.Fatalf("%d bytes with a limit of %d", len(plain), limit)
		}
		walk := it.Reset(batch, limit)
		if (walk == nil) != (err == nil) {
			if batch.Codec() != CodecNone {
				t.Fatalf("%v, %v", walk, err)
			}
		}
		n := 0
		for it.Next() {
			r := it.Record()
			if r.Offset < batch.BaseOffset() || r.Offset > batch.LastOffset() {
				t.Fatalf("offset %d outside %d to %d", r.Offset, batch.BaseOffset(), batch.LastOffset())
			}
			n++
		}
		if it.Err() == nil && n != int(batch.Count()) {
			t.Fatalf("%d records of %d and no error", n, batch.Count())
		}
		if produced != nil || crc != nil || err != nil || batch.ValidateDecompressed(plain) != nil {
			return
		}
		if it.Err() != nil {
			t.Fatalf("a broker takes what a consumer cannot read: %v", it.Err())
		}
		if again := rebuild(t, batch); !bytes.Equal(again.Records(), plain) {
			t.Fatalf("%x became %x", plain, again.Records())
		}
		batch.SetAppendTime(batch.MaxTimestamp())
		batch.SetProducer(1, 2, 3)
		if err := batch.ValidateCRC(); err != nil {
			t.Fatal(err)
		}
		if batch.WholeCRC() != CRC(batch) {
			t.Fatal("the checksum of the whole is wrong")
		}
	})
}

// FuzzAnswer walks over the batches of an answer.
func FuzzAnswer(f *testing.F) {
	var all []byte
	seedBatches(f, func(b []byte) { all = append(all, b...); f.Add(b) })
	f.Add(all)
	f.Fuzz(func(t *testing.T, b []byte) {
		left := len(b)
		for len(b) > 0 {
			batch, rest, err := NextBatch(b)
			if err != nil {
				return
			}
			if len(batch)+len(rest) != left {
				t.Fatalf("%d bytes became %d and %d", left, len(batch), len(rest))
			}
			b, left = rest, len(rest)
		}
	})
}

func FuzzDecompress(f *testing.F) {
	seedBatches(f, func(b []byte) {
		if batch, err := ParseBatch(b); err == nil && len(b) < 10_000 { // large seeds slow the search down
			f.Add(byte(batch.Codec()), batch.Records())
		}
	})
	f.Fuzz(func(t *testing.T, codec byte, b []byte) {
		if c := Codec(codec); c.Valid() {
			checkDecompress(t, c, b, 1<<18)
		}
	})
}

func FuzzRecords(f *testing.F) {
	for _, file := range []string{"batches.json", "batches_foreign.json"} {
		var v batchFile
		readVectors(f, file, &v)
		for _, b := range v.Batches {
			batch, err := ParseBatch(unhex(f, b.Batch))
			if err != nil {
				f.Fatal(err)
			}
			plain, err := Decompress(nil, batch.Codec(), batch.Records(), 1<<20)
			if err != nil {
				f.Fatal(err)
			}
			if len(plain) < 10_000 { // large seeds slow the search down
				f.Add(plain)
			}
		}
	}
	var bad invalidFile
	readVectors(f, "invalid.json", &bad)
	for _, v := range bad.Batches {
		if b := unhex(f, v.Bytes); len(b) > BatchHeaderBytes {
			f.Add(b[BatchHeaderBytes:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := recordCursor{b: b}
		for {
			before := c.off
			fast, slow := c, c
			var r, want rawRecord
			problem := slow.nextAny(&want)
			if fast.nextPlain(&r) {
				if problem != problemNone || fast.off != slow.off || r.timestampDelta != want.timestampDelta || r.offsetDelta != want.offsetDelta ||
					!sameBytes(r.key, want.key) || !sameBytes(r.value, want.value) || want.headerCount != 0 {
					t.Fatalf("at %d: %+v and %+v, %s", before, r, want, problem)
				}
			} else if problem == problemNone && want.headerCount == 0 {
				t.Fatalf("at %d: a plain record is not taken", before)
			}
			if problem != problemNone {
				break
			}
			if c = slow; c.off <= before || c.off > len(b) {
				t.Fatalf("went from %d to %d of %d", before, c.off, len(b))
			}
		}
	})
}
