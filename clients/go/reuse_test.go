package pulsemq

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
	"github.com/pulsemq/pulsemq/proto"
)

// fillPatterned stores records whose every byte follows from where they are, in batches of a few kilobytes.
func fillPatterned(c *fakebroker.Cluster, topic string, partitions, batches int) {
	for p := range partitions {
		for n := range batches {
			codec := Compression(n % 5)
			c.Partition(topic, p, func(l *fakebroker.Log) {
				var b proto.BatchBuilder
				b.Reset(codec)
				for i := range int64(7) {
					r := patterned(p, l.End+i)
					b.Append(&proto.Record{Timestamp: 1, Key: r.Key, Value: r.Value, Headers: []proto.Header{{Key: []byte("h"), Value: r.Headers[0].Value}}})
				}
				batch, err := b.Build()
				if err != nil {
					panic(err)
				}
				l.Append(batch, 1)
			})
		}
	}
}

// patterned is the record at a place.
func patterned(partition int, offset int64) *Record {
	place := binary.BigEndian.AppendUint64([]byte{byte(partition)}, uint64(offset))
	return &Record{Key: place, Value: bytes.Repeat(place, 100), Headers: []Header{{"h", place}}}
}

// checkPatterned says what is wrong with a record; nil when nothing is.
func checkPatterned(r *Record) error {
	want := patterned(int(r.Partition), r.Offset)
	if !bytes.Equal(r.Key, want.Key) || !bytes.Equal(r.Value, want.Value) || len(r.Headers) != 1 || r.Headers[0].Key != "h" || !bytes.Equal(r.Headers[0].Value, want.Headers[0].Value) {
		return fmt.Errorf("partition %d, offset %d: key %x, %d headers, value %.20x", r.Partition, r.Offset, r.Key, len(r.Headers), r.Value)
	}
	return nil
}

// Records are what they were stored as until the next Poll, whatever is read ahead meanwhile, also when they come in parts,
// when a loop is left early and puts some back, and when a partition is sought.
func TestMemoryThatIsUsedAgainHoldsUntilTheNextPoll(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		const partitions, batches = 3, 60
		c := fake(t, 1)
		c.FrameBatches = 4
		c.Create("t", partitions)
		fillPatterned(c, "t", partitions, batches)
		for _, most := range []int{1 << 20, 16, 3} {
			k := consumer(t, connect(t, c), mode, ConsumerReuse(), ConsumerStopAtEnd(), ConsumerPollRecords(most), ConsumerFetchBytes(32<<10), ConsumerBufferBytes(128<<10))
			if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
				t.Fatal(err)
			}
			chance := rand.New(rand.NewPCG(1, uint64(most)))
			var next [partitions]int64
			take := func(r *Record) {
				if err := checkPatterned(r); err != nil {
					t.Fatal(err)
				}
				if r.Offset != next[r.Partition] {
					t.Fatalf("partition %d goes on at %d, want %d", r.Partition, r.Offset, next[r.Partition])
				}
				next[r.Partition]++
			}
			for ended := false; !ended; {
				switch chance.IntN(20) {
				case 0: // back a little
					p := uint32(chance.IntN(partitions))
					next[p] = max(next[p]-chance.Int64N(50), 0)
					if err := k.Seek(within(t), "t", p, StartOffset(next[p])); err != nil {
						t.Fatal(err)
					}
				case 1, 2, 3, 4, 5, 6, 7: // a loop that is left early
					left := chance.IntN(12)
					ended = true
					for r, err := range k.Records(within(t)) {
						if err != nil {
							t.Fatal(err)
						}
						take(r)
						if left--; left < 0 {
							ended = false
							break
						}
					}
				default:
					records, err := k.Poll(within(t))
					if err == ErrEndOfLog {
						ended = true
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					for i := range records {
						take(&records[i])
					}
				}
			}
			for p, n := range next {
				if n != 7*batches {
					t.Errorf("%d records at a time: partition %d ends at %d, want %d", most, p, n, 7*batches)
				}
			}
			k.Close()
		}
	})
}

// Without ConsumerReuse records are the application's for good, also those of a chunk that comes in several parts.
func TestRecordsMayBeKept(t *testing.T) {
	c := fake(t, 1)
	c.FrameBatches = 10
	c.Create("t", 2)
	fillPatterned(c, "t", 2, 60)
	for name, mode := range map[string]ConsumerOption{"pull": ConsumerMode(ConsumerPull), "push": ConsumerMode(ConsumerPush)} {
		k := consumer(t, connect(t, c), mode, ConsumerStopAtEnd(), ConsumerPollRecords(16))
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		var kept []*Record
		var offsets []int64
		for r, err := range k.Records(within(t)) {
			if err != nil {
				t.Fatal(err)
			}
			kept, offsets = append(kept, r), append(offsets, r.Offset)
		}
		for i, r := range kept {
			if err := checkPatterned(r); err != nil || r.Offset != offsets[i] {
				t.Fatalf("%s: the record of offset %d has %d (%v)", name, offsets[i], r.Offset, err)
			}
		}
		if len(kept) != 2*7*60 {
			t.Errorf("%s: %d records", name, len(kept))
		}
		k.Close()
	}
}

// What ConsumerReuse is for: memory for records and for what they come in is taken from what was returned.
func TestMemoryIsUsedAgain(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	const batches = 400
	for range batches {
		store(c, "t", 0, 1, CompressionNone, string(make([]byte, 20<<10)))
	}
	payloads, slabs := map[*byte]bool{}, map[*Record]bool{}
	k := consumer(t, connect(t, c), ConsumerReuse(), ConsumerStopAtEnd(), ConsumerFetchBytes(20<<10), ConsumerPollRecords(1))
	if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
		t.Fatal(err)
	}
	for {
		records, err := k.Poll(within(t))
		if err == ErrEndOfLog {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		payloads[&records[0].Value[0]], slabs[&records[0]] = true, true
	}
	if len(payloads) > batches/10 || len(slabs) > reuseSlabsMax {
		t.Errorf("%d answers lay in %d places, their records in %d", batches, len(payloads), len(slabs))
	}
}

// Room that no answer fits any more goes, the oldest first, and never more is kept than may be.
func TestRoomOfAnswersIsBounded(t *testing.T) {
	r := &reuse{bytesMax: 1 << 20}
	for n := reusePayloadBytesMin; n <= 2<<20; n += 10_000 {
		r.give(make([]byte, n))
		sum := 0
		for _, b := range r.payloads {
			sum += cap(b)
		}
		if sum != r.bytes || sum > r.bytesMax {
			t.Fatalf("%d bytes are kept, noted are %d, allowed %d", sum, r.bytes, r.bytesMax)
		}
	}
	kept := len(r.payloads)
	if b := r.buffer(100 << 10); cap(b) > 200<<10 || len(r.payloads) != kept {
		t.Errorf("an answer of 100 KiB lies in %d bytes", cap(b))
	}
	if b := r.buffer(900_000); len(b) != 900_000 || len(r.payloads) != kept-1 {
		t.Errorf("%d bytes of room, %d of %d are left", len(b), len(r.payloads), kept)
	}
}
