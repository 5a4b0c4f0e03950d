package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"pgregory.net/rapid"
)

var everyCodec = []proto.Codec{proto.CodecNone, proto.CodecGzip, proto.CodecSnappy, proto.CodecLZ4, proto.CodecZstd}

// TestTimeLookupAgainstList spreads records with timestamps in any order over
// batches, frames, two segment files and a tail in memory.
func TestTimeLookupAgainstList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		files := newFolder()
		var all []int64 // timestamp of each offset
		var sources []TimeSource
		next, index := core.Offset(0), core.Index(1)
		for part := range 3 {
			w := newLogWriter(t, testHeader(core.SegmentNumber(part+1), next, index))
			x := NewIndex(next, index)
			var tail []byte
			for range rapid.IntRange(0, 4).Draw(rt, "frames") {
				var payload []byte
				base := w.next
				for range rapid.IntRange(1, 3).Draw(rt, "batches") {
					var records []proto.Record
					for range rapid.IntRange(1, 6).Draw(rt, "records") {
						at := int64(rapid.IntRange(0, 40).Draw(rt, "timestamp"))
						records = append(records, record(at, "k", "some value some value"))
						all = append(all, at)
					}
					payload = append(payload, w.batch(base, rapid.SampledFrom(everyCodec).Draw(rt, "codec"), records...)...)
					base += core.Offset(len(records))
				}
				tail = append(tail, payload...)
				w.write(0, func() { w.frame(FrameData, uint32(base-w.next), payload) })
				last := w.places[len(w.places)-1]
				x.Add(&last.header, last.position, PayloadMaxTimestamp(payload))
			}
			next, index = w.next, w.index+1
			if part == 2 {
				sources = append(sources, TimeSource{Batches: tail})
				break
			}
			name := SegmentName(w.header.BaseOffset, w.header.Segment) + LogExtension
			files.put(name, w.bytes)
			sources = append(sources, TimeSource{Path: name, Header: w.header})
		}
		q := TimeQuery{Timestamp: int64(rapid.IntRange(0, 45).Draw(rt, "asked")), Max: rapid.Bool().Draw(rt, "max"),
			First: core.Offset(rapid.IntRange(0, len(all)).Draw(rt, "first")), Limit: core.Offset(rapid.IntRange(0, len(all)+1).Draw(rt, "limit"))}
		want, found := core.Offset(0), false
		for offset, at := range all {
			if o := core.Offset(offset); o < q.First || o >= q.Limit {
				continue
			}
			if q.Max && (!found || at > all[want]) || !q.Max && !found && at >= q.Timestamp {
				want, found = core.Offset(offset), true
			}
		}
		ended := false
		l := &TimeLookup{Files: files, Query: q, Sources: sources, Ended: func(*TimeLookup) { ended = true }}
		l.Run()
		l.Done()
		if l.Err != nil || l.Found != found || !ended {
			rt.Fatalf("%+v: found %v, want %v at %d: %v", q, l.Found, found, want, l.Err)
		}
		if found && (l.Hit.Offset != want || l.Hit.Timestamp != all[want] || l.Hit.Epoch != 1 || l.Hit.Inexact) {
			rt.Fatalf("%+v: %+v, want offset %d", q, l.Hit, want)
		}
	})
}

func TestTimeLookupAppendTime(t *testing.T) {
	w := newLogWriter(t, testHeader(1, 0, 1))
	b := w.batch(0, proto.CodecZstd, record(1, "a", "b"), record(900, "c", "d"))
	b.SetAppendTime(500)
	if hit, ok := FindTime(b, TimeQuery{Timestamp: 2, Limit: 2}); !ok || hit.Offset != 0 || hit.Timestamp != 500 {
		t.Fatal(hit, ok)
	}
	if hit, ok := FindTime(b, TimeQuery{Timestamp: 501, Limit: 2}); ok {
		t.Fatal(hit)
	}
}

// TestTimeLookupBomb: a batch that would decompress past the limit is answered as a whole.
func TestTimeLookupBomb(t *testing.T) {
	w := newLogWriter(t, testHeader(1, 0, 1))
	before := w.batch(0, proto.CodecNone, record(5, "a", "b"))
	bomb := w.batch(1, proto.CodecZstd, record(5, "c", "d"), proto.Record{Timestamp: 9, Value: make([]byte, lookupRecordBytesMax)})
	hit, ok := FindTime(append(before, bomb...), TimeQuery{Timestamp: 9, Limit: 3})
	if !ok || hit.Offset != 1 || !hit.Inexact {
		t.Fatal(hit, ok)
	}
}
