package deadletter

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

const (
	now       = 1_800_000_000_000
	topicMax  = 1 << 20
	firstTime = 1_700_000_000_000
)

var origin = Origin{Topic: "orders", Partition: 3, Group: "billing"}

// source is a batch as it is stored, from an offset on.
func source(t testing.TB, codec proto.Codec, base int64, records ...proto.Record) proto.Batch {
	t.Helper()
	var b proto.BatchBuilder
	b.Reset(codec)
	for i := range records {
		records[i].Timestamp = firstTime + base + int64(i)
		if err := b.Append(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if codec != proto.CodecNone && batch.Codec() != codec {
		t.Fatalf("the records are not compressed by %v", codec)
	}
	batch.SetBaseOffset(base)
	return bytes.Clone(batch)
}

func deaths(offsets ...int64) (list []Death) {
	for _, o := range offsets {
		list = append(list, Death{Offset: o, Attempts: 5, Reason: "nacked", Text: "why"})
	}
	return list
}

// letters are the records of a composition, held to what every batch of letters is.
func letters(t testing.TB, c *Composition) (list []proto.Record) {
	t.Helper()
	if c.Obstacle != NoObstacle || c.Err != nil {
		t.Fatalf("obstacle %d: %v", c.Obstacle, c.Err)
	}
	if err := proto.ValidateHeader(c.Batch, len(c.Batch)); err != nil {
		t.Fatal(err)
	}
	if err := c.Batch.ValidateCRC(); err != nil {
		t.Fatal(err)
	}
	if int(c.Batch.Count()) != c.Letters {
		t.Fatalf("%d letters in a batch of %d records", c.Letters, c.Batch.Count())
	}
	var it proto.RecordIterator
	for _ = it.Reset(bytes.Clone(c.Batch), 64<<20); it.Next(); {
		r := *it.Record()
		r.Headers = append([]proto.Header(nil), r.Headers...)
		list = append(list, r)
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// What a record is stays as it is, whatever the codec, whatever its bytes.
func TestDeadLetterIsTheRecord(t *testing.T) {
	filler := bytes.Repeat([]byte("filler "), 200) // so that every codec makes it smaller
	records := []proto.Record{
		{Key: []byte("k"), Value: filler},
		{Key: nil, Value: []byte{}},
		{Key: []byte{}, Value: nil},
		{Key: []byte("\xff\x00\xfe"), Value: []byte("\xc3\x28"), Headers: []proto.Header{header("h", "1"), header("h", "2"), {Key: []byte("h")}, header("h", ""), header("\xff", "\xfe")}},
		{Key: []byte("again"), Value: []byte("v"), Headers: []proto.Header{header("before", "x"), header("mq-topic", "elsewhere"), header("mq-reason", "old"), header("after", "y")}},
	}
	for codec := proto.CodecNone; codec <= proto.CodecZstd; codec++ {
		batch := source(t, codec, 100, records...)
		var c Composer
		got := c.Compose([][]byte{batch}, origin, deaths(100, 101, 102, 103, 104), now, topicMax)
		list := letters(t, &got)
		if len(list) != len(records) {
			t.Fatalf("%v: %d letters of %d", codec, len(list), len(records))
		}
		for i, r := range list {
			if !reflect.DeepEqual(r.Key, records[i].Key) || !reflect.DeepEqual(r.Value, records[i].Value) {
				t.Errorf("%v: record %d became key %q, value %q", codec, i, r.Key, r.Value)
			}
			if r.Timestamp != now {
				t.Errorf("%v: record %d has the time %d", codec, i, r.Timestamp)
			}
			if own, want := AppendOwn(nil, r.Headers), AppendOwn(nil, records[i].Headers); !reflect.DeepEqual(own, want) {
				t.Errorf("%v: record %d has the headers %q", codec, i, own)
			}
			p, err := ParseProvenance(r.Headers)
			want := Provenance{Topic: "orders", Partition: 3, Offset: 100 + int64(i), Timestamp: firstTime + 100 + int64(i), Group: "billing", Attempts: 5, Reason: "nacked", Text: "why"}
			if err != nil || p != want {
				t.Errorf("%v: record %d comes from %+v, %v", codec, i, p, err)
			}
		}
		if codec != proto.CodecNone && got.Batch.Codec() != codec {
			t.Errorf("letters of %v records are compressed by %v", codec, got.Batch.Codec())
		}
	}
}

// A record of a topic with the broker's time tells that time.
func TestDeadLetterOfAppendTime(t *testing.T) {
	batch := source(t, proto.CodecNone, 5, proto.Record{Value: []byte("v")})
	batch.SetAppendTime(firstTime + 999)
	var c Composer
	got := c.Compose([][]byte{batch}, origin, deaths(5), now, topicMax)
	if p, err := ParseProvenance(letters(t, &got)[0].Headers); err != nil || p.Timestamp != firstTime+999 {
		t.Errorf("%+v, %v", p, err)
	}
}

// offsets are what a composition's letters say that they come from.
func offsets(t testing.TB, c *Composition) (list []int64) {
	t.Helper()
	for _, r := range letters(t, c) {
		p, err := ParseProvenance(r.Headers)
		if err != nil || string(r.Value) != fmt.Sprint(p.Offset) {
			t.Fatalf("a letter of %.20q says %+v, %v", r.Value, p, err)
		}
		list = append(list, p.Offset)
	}
	return list
}

// numbered are records whose values are their offsets.
func numbered(base, count int64) (records []proto.Record) {
	for o := base; o < base+count; o++ {
		records = append(records, proto.Record{Value: fmt.Append(nil, o)})
	}
	return records
}

func TestLettersAreInTheOrderOfDeaths(t *testing.T) {
	read := [][]byte{
		append(bytes.Clone(source(t, proto.CodecNone, 10, numbered(10, 5)...)), source(t, proto.CodecNone, 15, numbered(15, 5)...)...),
		source(t, proto.CodecNone, 30, numbered(30, 2)...),
	}
	order := []int64{31, 12, 11, 10, 19, 13, 14, 15, 30}
	var c Composer
	got := c.Compose(read, origin, deaths(order...), now, topicMax)
	if list := offsets(t, &got); !reflect.DeepEqual(list, order) {
		t.Errorf("letters of %v", list)
	}
	// Back and forth through a batch is a walk each time, of which there are only so many.
	var shuttle []int64
	for range openingsMax {
		shuttle = append(shuttle, 14, 10)
	}
	got = c.Compose(read, origin, deaths(shuttle...), now, topicMax)
	if n := len(offsets(t, &got)); n < openingsMax || n >= len(shuttle) {
		t.Errorf("%d letters of %d", n, len(shuttle))
	}
}

// A run ends before a record that cannot become a letter; as the first one it is told of.
func TestObstacles(t *testing.T) {
	var filter proto.BatchFilter
	full := source(t, proto.CodecNone, 10, numbered(10, 5)...)
	thinned, _, err := filter.Append(nil, full, topicMax, func(r *proto.Record) bool { return r.Offset != 12 && r.Offset != 14 })
	if err != nil {
		t.Fatal(err)
	}
	hurt := source(t, proto.CodecNone, 15, numbered(15, 5)...)
	hurt[len(hurt)-1] ^= 1
	packed := source(t, proto.CodecGzip, 20, proto.Record{Value: bytes.Repeat([]byte{1}, 1000)})
	bomb := source(t, proto.CodecGzip, 21, proto.Record{Value: make([]byte, decompressedBytesMax)})
	packed[proto.BatchHeaderBytes] ^= 0xff
	setCRC(packed)
	read := [][]byte{thinned, hurt, packed, bomb}
	for offset, want := range map[int64]Obstacle{12: Gone, 14: Gone, 16: Damaged, 20: Damaged, 21: Damaged, 9: Elsewhere, 99: Elsewhere} {
		var c Composer
		got := c.Compose(read, origin, deaths(offset, 10), now, topicMax)
		if got.Obstacle != want || got.Letters != 0 || got.Err == nil {
			t.Errorf("offset %d: obstacle %d, %d letters, %v", offset, got.Obstacle, got.Letters, got.Err)
		}
		got = c.Compose(read, origin, deaths(10, 11, offset, 13), now, topicMax)
		if list := offsets(t, &got); !reflect.DeepEqual(list, []int64{10, 11}) {
			t.Errorf("before offset %d: letters of %v", offset, list)
		}
	}
}

// setCRC makes the checksum right again, as of a batch whose records were wrong when they were sent.
func setCRC(b proto.Batch) {
	crc := proto.CRC(b[21:])
	b[17], b[18], b[19], b[20] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
}

// A letter is larger than its record: what the member said goes first, and then the record stays where it is.
func TestSizeBounds(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	for i := range value {
		value[i] += byte(i * i >> 8) // so that little can be compressed away
	}
	for codec := proto.CodecNone; codec <= proto.CodecZstd; codec++ {
		var batch proto.Batch
		if codec == proto.CodecNone {
			batch = source(t, codec, 7, proto.Record{Value: value})
		} else {
			batch = source(t, codec, 7, proto.Record{Value: append(make([]byte, 4<<10), value...)})
		}
		long := []Death{{Offset: 7, Attempts: 5, Reason: "rejected", Text: strings.Repeat("because ", 128)}}
		noise := []byte(long[0].Text)
		for i := range noise {
			noise[i] = 'a' + byte(i*i*7>>3)%26
		}
		long[0].Text = string(noise)
		var c Composer
		whole := c.Compose([][]byte{batch}, origin, long, now, topicMax)
		wholeBytes := len(whole.Batch)
		p, err := ParseProvenance(letters(t, &whole)[0].Headers)
		if err != nil || p.Text != long[0].Text {
			t.Fatalf("%v: %v", codec, err)
		}
		short := c.Compose([][]byte{batch}, origin, long, now, wholeBytes-1)
		if p, err = ParseProvenance(letters(t, &short)[0].Headers); err != nil || p.Text != "" || p.Reason != "rejected" || len(short.Batch) >= wholeBytes {
			t.Errorf("%v: %d bytes with %+v, %v", codec, len(short.Batch), p, err)
		}
		none := c.Compose([][]byte{batch}, origin, long, now, len(short.Batch)-1)
		if none.Obstacle != TooLarge || none.Err == nil || !strings.Contains(none.Err.Error(), "max.message.bytes") {
			t.Errorf("%v: obstacle %d, %v", codec, none.Obstacle, none.Err)
		}
	}
}

// A batch of letters is within the topic's bound, and a large record does not take its neighbours along.
func TestBatchesAreBounded(t *testing.T) {
	records := numbered(0, 3000)
	for i := range records {
		records[i].Headers = []proto.Header{{Key: []byte("pad"), Value: make([]byte, 200)}}
	}
	large := source(t, proto.CodecNone, 3000, proto.Record{Value: make([]byte, 2*gatherBytesMax)})
	read := [][]byte{source(t, proto.CodecNone, 0, records...), large}
	var all []int64
	for o := range int64(3001) {
		all = append(all, o)
	}
	var c Composer
	for _, bytesMax := range []int{4 << 10, gatherBytesMax, topicMax} {
		for at := 0; at < 3000; {
			got := c.Compose(read, origin, deaths(all[at:]...), now, bytesMax)
			if got.Letters == 0 || len(got.Batch) > min(bytesMax, gatherBytesMax) {
				t.Fatalf("%d letters in %d bytes, obstacle %d", got.Letters, len(got.Batch), got.Obstacle)
			}
			at += got.Letters
			if at > 3000 {
				t.Fatal("the large record is in a batch with others")
			}
		}
	}
	if got := c.Compose(read, origin, deaths(3000), now, topicMax); got.Letters != 1 {
		t.Errorf("the large record: %d letters, %v", got.Letters, got.Err)
	}
	if got := c.Compose(read, origin, nil, now, topicMax); got.Letters != 0 || got.Obstacle != NoObstacle {
		t.Errorf("of nothing: %+v", got)
	}
}

// Whatever lies on the disk, a composition is letters of the deaths in their order, or an obstacle.
func FuzzCompose(f *testing.F) {
	f.Add([]byte(source(f, proto.CodecNone, 10, numbered(10, 3)...)), int64(10), int64(12), 1<<10)
	f.Add([]byte(source(f, proto.CodecNone, 10, proto.Record{Value: make([]byte, 300), Headers: []proto.Header{header("mq-topic", "x")}})), int64(10), int64(10), 500)
	f.Fuzz(func(t *testing.T, b []byte, first, second int64, bytesMax int) {
		var c Composer
		got := c.Compose([][]byte{b}, origin, deaths(first, second), now, bytesMax)
		if (got.Letters == 0) == (got.Obstacle == NoObstacle) || got.Letters > 2 {
			t.Fatalf("%d letters, obstacle %d", got.Letters, got.Obstacle)
		}
		if got.Letters > 0 && len(got.Batch) > bytesMax {
			t.Fatalf("%d bytes of %d", len(got.Batch), bytesMax)
		}
		if got.Letters > 0 {
			letters(t, &got)
		}
	})
}

// A letter that dies in its turn, again and again, does not grow: the provenance is replaced.
func TestLettersOfLettersDoNotGrow(t *testing.T) {
	batch := source(t, proto.CodecNone, 7, proto.Record{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 1000), Headers: []proto.Header{header("h", "1")}})
	var c Composer
	before := 0
	for life := range 5 {
		got := c.Compose([][]byte{batch}, Origin{Topic: "orders.dead", Partition: 3, Group: "second"}, deaths(7), now, topicMax)
		r := letters(t, &got)[0]
		if len(r.Headers) != 1+len(headerNames) || life > 1 && len(got.Batch) != before {
			t.Fatalf("life %d: %d bytes after %d, headers %q", life, len(got.Batch), before, r.Headers)
		}
		before = len(got.Batch)
		batch = bytes.Clone(got.Batch)
		batch.SetBaseOffset(7)
	}
}
