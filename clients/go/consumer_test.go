package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
	"github.com/pulsemq/pulsemq/proto"
)

var modes = map[string]ConsumerOption{
	"pull": ConsumerMode(ConsumerPull), "push": ConsumerMode(ConsumerPush),
	"pull, memory used again": func(c *consumerConfig) { c.mode, c.reuse = ConsumerPull, true },
	"push, memory used again": func(c *consumerConfig) { c.mode, c.reuse = ConsumerPush, true },
}

// eachMode runs a test with all ways of reading.
func eachMode(t *testing.T, f func(t *testing.T, mode ConsumerOption)) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) { f(t, mode) })
	}
}

// store appends a batch of values, with the times 1000, 1001, ... + offset.
func store(c *fakebroker.Cluster, topic string, partition int, epoch int32, codec Compression, values ...string) {
	c.Partition(topic, partition, func(l *fakebroker.Log) {
		var b proto.BatchBuilder
		b.Reset(codec)
		for i, v := range values {
			b.Append(&proto.Record{Timestamp: 1000 + l.End + int64(i), Value: []byte(v)})
		}
		batch, err := b.Build()
		if err != nil {
			panic(err)
		}
		l.Append(batch, epoch)
	})
}

// read polls until there are so many records, and returns their values and what was reported.
func read(t *testing.T, k *Consumer, n int) (got []string, told []error) {
	t.Helper()
	ctx := within(t)
	for len(got) < n {
		records, err := k.Poll(ctx)
		var about *PartitionError
		if errors.As(err, &about) {
			told = append(told, err)
			if about.Stopped {
				return got, told
			}
			continue
		}
		if err != nil {
			t.Fatalf("after %d of %d records: %v", len(got), n, err)
		}
		for _, r := range records {
			got = append(got, string(r.Value))
		}
	}
	return got, told
}

func TestConsumeExactly(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		for _, codec := range []Compression{CompressionNone, CompressionGzip, CompressionSnappy, CompressionLZ4, CompressionZstd} {
			t.Run(codec.String(), func(t *testing.T) {
				c := fake(t, 1)
				c.Create("t", 1)
				client := connect(t, c)
				p := producer(t, client, ProducerCompression(codec))
				at := time.UnixMilli(1700000000123)
				sent := []*Message{
					{Topic: "t", Timestamp: at, Value: []byte{}, Headers: []Header{{"a", []byte("1")}, {"a", nil}, {"\xfe", []byte{}}}},
					{Topic: "t", Timestamp: at, Key: []byte{}, Value: nil},
					{Topic: "t", Timestamp: at, Key: []byte{0xff, 0}, Value: []byte(strings.Repeat("x", 1000))},
				}
				for _, m := range sent {
					if _, err := p.Send(within(t), m); err != nil {
						t.Fatal(err)
					}
				}
				k := consumer(t, client, mode)
				if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
					t.Fatal(err)
				}
				i := 0
				for r, err := range k.Records(within(t)) {
					if err != nil {
						t.Fatal(err)
					}
					want := Record{Topic: "t", Offset: int64(i), LeaderEpoch: 1, Timestamp: at, Key: sent[i].Key, Value: sent[i].Value, Headers: sent[i].Headers}
					if fmt.Sprintf("%#v", r.Clone()) != fmt.Sprintf("%#v", want) {
						t.Errorf("record %d:\n%#v, want\n%#v", i, *r, want)
					}
					if i++; i == len(sent) {
						break
					}
				}
				if position := k.Positions()[0]; position.Position != 3 || position.HighWatermark < 1 {
					t.Errorf("%+v", position)
				}
			})
		}
	})
}

func TestStartsWhereTold(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		store(c, "t", 0, 1, CompressionNone, "0", "1", "2", "3")
		store(c, "t", 0, 1, CompressionZstd, "4", "5", "6")
		c.Partition("t", 0, func(l *fakebroker.Log) { l.Start = 1 })
		client := connect(t, c)
		for want, from := range map[string]Start{
			"1": StartEarliest(), "2": StartOffset(2), "5": StartOffset(5), "3": StartTime(time.UnixMilli(1003)), "late": StartLatest(), "later": StartTime(time.UnixMilli(9000)),
		} {
			k := consumer(t, client, mode)
			if err := k.AssignPartition(within(t), "t", 0, from); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(want, "late") {
				store(c, "t", 0, 1, CompressionNone, want)
			}
			if got, _ := read(t, k, 1); got[0] != want {
				t.Errorf("%v begins with %s, want %s", from, got[0], want)
			}
			k.Close()
		}
	})
}

// TestConsumeUnderFaults cuts connections and moves leaders while many partitions are read, and wants every record once
// and in order.
func TestConsumeUnderFaults(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		const partitions, perPartition = 8, 400
		c := fake(t, 2)
		c.Create("t", partitions)
		var mu sync.Mutex
		rnd := rand.New(rand.NewPCG(7, 7))
		faults := 0
		c.SetFault(func(m proto.Message) fakebroker.Fault {
			switch m.(type) {
			case *proto.FetchRequest, *proto.SubscribeRequest, *proto.CreditRequest:
			default:
				return fakebroker.Fault{}
			}
			mu.Lock()
			defer mu.Unlock()
			if n := rnd.IntN(60); n < 8 {
				faults++
				return []fakebroker.Fault{{DropBefore: true}, {DropAfter: true}, {CutAnswer: 1 + rnd.IntN(200)}, {Refuse: &proto.Error{Code: proto.CodeOverloaded, WaitMs: 2}},
					{Delay: time.Millisecond}, {CorruptCRC: true}, {Refuse: &proto.Error{Code: proto.CodePartitionUnavailable}}, {}}[n]
			}
			return fakebroker.Fault{}
		})
		client := connect(t, c)
		k := consumer(t, client, mode, ConsumerFetchBytes(500), ConsumerBufferBytes(3000), ConsumerFetchConcurrency(3), ConsumerFetchWait(20*time.Millisecond))
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		go func() {
			for i := 0; i < perPartition; i += 4 {
				for p := range partitions {
					store(c, "t", p, 1, Compression(i/4%5), fmt.Sprint(i), fmt.Sprint(i+1), fmt.Sprint(i+2), fmt.Sprint(i+3))
				}
				if i%80 == 0 {
					c.Node(1).DropAll()
				}
			}
		}()
		next := make([]int, partitions)
		ctx := within(t)
		for total := 0; total < partitions*perPartition; {
			records, err := k.Poll(ctx)
			if err != nil {
				t.Fatalf("after %d records: %v, %+v", total, err, k.Positions())
			}
			for _, r := range records {
				if string(r.Value) != fmt.Sprint(next[r.Partition]) || r.Offset != int64(next[r.Partition]) {
					t.Fatalf("partition %d: record %s at offset %d, want %d", r.Partition, r.Value, r.Offset, next[r.Partition])
				}
				next[r.Partition]++
				total++
			}
		}
		mu.Lock()
		if faults < 5 {
			t.Errorf("only %d faults", faults)
		}
		mu.Unlock()
		c.SetFault(nil)
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingStaleAfterSeek seeks while fetches and pushes are on their way.
func TestNothingStaleAfterSeek(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		for i := 0; i < 1000; i += 10 {
			var values []string
			for n := range 10 {
				values = append(values, fmt.Sprint(i+n))
			}
			store(c, "t", 0, 1, CompressionNone, values...)
		}
		k := consumer(t, connect(t, c), mode, ConsumerFetchBytes(700), ConsumerPollRecords(7))
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 100 {
			to := rnd.IntN(990)
			if err := k.Seek(within(t), "t", 0, StartOffset(int64(to))); err != nil {
				t.Fatal(err)
			}
			got, _ := read(t, k, 1+rnd.IntN(9))
			for i, v := range got {
				if v != fmt.Sprint(to+i) {
					t.Fatalf("record %d after a seek to %d is %s", i, to, v)
				}
			}
		}
		// Also inside a loop: what the iterator holds is of the old place.
		n := 0
		for r, err := range k.Records(within(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 && r.Offset != 500 {
				t.Fatalf("offset %d after a seek to 500", r.Offset)
			}
			if n++; n == 2 {
				break
			}
			k.Seek(within(t), "t", 0, StartOffset(500))
		}
		// A loop that is left early loses nothing.
		if got, _ := read(t, k, 1); got[0] != "501" {
			t.Errorf("after leaving the loop: %s", got[0])
		}
	})
}

func TestPause(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 2)
		k := consumer(t, connect(t, c), mode)
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		store(c, "t", 0, 1, CompressionNone, "a")
		until(t, "a is read ahead", func() bool { return k.Buffered() > 0 })
		k.Pause("t", 0)
		store(c, "t", 0, 1, CompressionNone, "b")
		store(c, "t", 1, 1, CompressionNone, "c")
		if got, _ := read(t, k, 1); got[0] != "c" {
			t.Errorf("got %v", got)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
		if records, err := k.Poll(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", records, err)
		}
		if !k.Positions()[0].Paused {
			t.Error("not shown as paused")
		}
		k.Resume("t", 0)
		if got, _ := read(t, k, 2); fmt.Sprint(got) != "[a b]" {
			t.Errorf("got %v", got)
		}
		if err := k.Pause("t", 9); !errors.Is(err, ErrInvalidRequest) {
			t.Error(err)
		}
	})
}

func TestOffsetOutOfRange(t *testing.T) {
	for policy, want := range map[ConsumerResetPolicy]string{ConsumerResetError: "", ConsumerResetEarliest: "3", ConsumerResetLatest: "new"} {
		eachMode(t, func(t *testing.T, mode ConsumerOption) {
			want := want
			c := fake(t, 1)
			c.Create("t", 1)
			store(c, "t", 0, 1, CompressionNone, "0", "1", "2")
			store(c, "t", 0, 1, CompressionNone, "3", "4")
			c.Partition("t", 0, func(l *fakebroker.Log) { l.Start = 3 })
			k := consumer(t, connect(t, c), mode, ConsumerReset(policy))
			if err := k.AssignPartition(within(t), "t", 0, StartOffset(1)); err != nil {
				t.Fatal(err)
			}
			_, err := k.Poll(within(t))
			var about *PartitionError
			var refusal *Error
			if !errors.As(err, &about) || !errors.Is(err, ErrOffsetOutOfRange) || !errors.As(err, &refusal) || refusal.Offsets == nil || about.Base != 1 {
				t.Fatalf("%v", err)
			}
			if about.Stopped != (want == "") {
				t.Errorf("stopped %v", about.Stopped)
			}
			store(c, "t", 0, 1, CompressionNone, "new")
			if want == "" {
				if !k.Positions()[0].Stopped {
					t.Error("not shown as stopped")
				}
				want = "4"
				k.Seek(within(t), "t", 0, StartOffset(4))
			}
			if got, told := read(t, k, 1); got[0] != want || len(told) > 0 {
				t.Errorf("went on with %v, %v, want %s", got, told, want)
			}
		})
	}
}

// TestLogTruncated has a broker lose a suffix that was read, as durability none may.
func TestLogTruncated(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		store(c, "t", 0, 1, CompressionNone, "0", "1")
		store(c, "t", 0, 1, CompressionNone, "lost", "lost")
		k := consumer(t, connect(t, c), mode)
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		read(t, k, 4)
		c.Node(1).Stop()
		c.Partition("t", 0, func(l *fakebroker.Log) { l.Truncate(2) })
		c.MoveLeader("t", 0, 1) // a new epoch
		store(c, "t", 0, 2, CompressionNone, "2", "3", "4")
		if err := c.Node(1).Start(c.Node(1).Address()); err != nil {
			t.Fatal(err)
		}
		got, told := read(t, k, 3)
		if fmt.Sprint(got) != "[2 3 4]" || len(told) != 1 || !errors.Is(told[0], ErrLogTruncated) {
			t.Errorf("%v, %v", got, told)
		}
	})
}

func TestCorruptRecord(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		for _, skip := range []bool{false, true} {
			t.Run(fmt.Sprint("skip ", skip), func(t *testing.T) {
				c := fake(t, 1)
				c.Create("t", 1)
				store(c, "t", 0, 1, CompressionNone, "0", "1")
				store(c, "t", 0, 1, CompressionNone, "2", "3")
				store(c, "t", 0, 1, CompressionNone, "4")
				c.Partition("t", 0, func(l *fakebroker.Log) { l.Damage = []proto.DamagedRange{{BaseOffset: 2, NextOffset: 4}} })
				k := consumer(t, connect(t, c), mode, ConsumerSkipCorrupt(skip))
				if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
					t.Fatal(err)
				}
				got, told := read(t, k, 3)
				var about *PartitionError
				if len(told) != 1 || !errors.Is(told[0], ErrCorruptRecord) || !errors.As(told[0], &about) || about.Base != 2 || about.Next != 4 || about.Stopped == skip {
					t.Fatalf("told %v", told)
				}
				if want := map[bool]string{false: "[0 1]", true: "[0 1 4]"}[skip]; fmt.Sprint(got) != want {
					t.Errorf("got %v", got)
				}
			})
		}
	})
}

// TestBitFlipOnTheWay wants flipped bits asked for again, and reported when they stay.
func TestBitFlipOnTheWay(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		store(c, "t", 0, 1, CompressionNone, "0", "1")
		var mu sync.Mutex
		left := 2
		c.SetFault(func(m proto.Message) fakebroker.Fault {
			mu.Lock()
			defer mu.Unlock()
			switch m.(type) {
			case *proto.FetchRequest, *proto.SubscribeRequest:
				left--
				return fakebroker.Fault{CorruptCRC: left >= 0}
			}
			return fakebroker.Fault{}
		})
		client := connect(t, c)
		k := consumer(t, client, mode)
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		if got, told := read(t, k, 2); len(got) != 2 || len(told) > 0 {
			t.Errorf("%v, %v", got, told)
		}
		k.Close()
		mu.Lock()
		left = 1 << 30
		mu.Unlock()
		k = consumer(t, client, mode)
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		if got, told := read(t, k, 1); len(got) != 0 || len(told) != 1 || !errors.Is(told[0], ErrCorruptBatch) {
			t.Errorf("%v, %v", got, told)
		}
	})
}

func TestStopAtEnd(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 2)
		c.Create("t", 5)
		c.Create("empty", 3)
		for p := range 4 {
			for i := range 10 {
				store(c, "t", p, 1, CompressionLZ4, fmt.Sprint(i), fmt.Sprint(i))
			}
		}
		client := connect(t, c)
		for topic, want := range map[string]int{"t": 80, "empty": 0} {
			k := consumer(t, client, mode, ConsumerStopAtEnd(), ConsumerFetchWait(time.Hour))
			if err := k.AssignTopic(within(t), topic, StartEarliest()); err != nil {
				t.Fatal(err)
			}
			store(c, topic, 0, 1, CompressionNone, "behind the end")
			n := 0
			for r, err := range k.Records(within(t)) {
				if err != nil {
					t.Fatal(err)
				}
				if string(r.Value) == "behind the end" {
					t.Error("read behind the end")
				}
				n++
			}
			if n != want {
				t.Errorf("%s: %d records, want %d", topic, n, want)
			}
			if _, err := k.Poll(within(t)); !errors.Is(err, ErrEndOfLog) {
				t.Error(err)
			}
		}
	})
}

// A start behind the end is out of range, not an empty log.
func TestStopAtEndFromBehindTheEnd(t *testing.T) {
	for policy, want := range map[ConsumerResetPolicy]int{ConsumerResetError: 0, ConsumerResetEarliest: 2, ConsumerResetLatest: 0} {
		eachMode(t, func(t *testing.T, mode ConsumerOption) {
			c := fake(t, 1)
			c.Create("t", 1)
			store(c, "t", 0, 1, CompressionNone, "0", "1")
			k := consumer(t, connect(t, c), mode, ConsumerStopAtEnd(), ConsumerReset(policy))
			if err := k.AssignPartition(within(t), "t", 0, StartOffset(17)); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Poll(within(t)); !errors.Is(err, ErrOffsetOutOfRange) {
				t.Fatalf("policy %d: %v", policy, err)
			}
			n := 0
			for _, err := range k.Records(within(t)) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != want {
				t.Errorf("policy %d: %d records behind the error, want %d", policy, n, want)
			}
		})
	}
}

// TestCompactedBatches has batches with gaps and one that has become empty.
func TestCompactedBatches(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		store(c, "t", 0, 1, CompressionNone, "0", "1", "2")
		c.Partition("t", 0, func(l *fakebroker.Log) {
			gone := emptied(l.Batches[0])
			l.Append(gone, 1)
			l.Append(gone, 1)
		})
		k := consumer(t, connect(t, c), mode, ConsumerStopAtEnd())
		if err := k.AssignTopic(within(t), "t", StartOffset(1)); err != nil {
			t.Fatal(err)
		}
		var got []int64
		for r, err := range k.Records(within(t)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Offset)
		}
		if fmt.Sprint(got) != "[1 2]" || k.Positions()[0].Position != 9 {
			t.Errorf("offsets %v, %+v", got, k.Positions())
		}
	})
}

// emptied is a batch with its span and no records.
func emptied(b proto.Batch) proto.Batch {
	e := append(proto.Batch(nil), b[:proto.BatchHeaderBytes]...)
	e[8], e[9], e[10], e[11] = 0, 0, 0, proto.BatchHeaderBytes-12
	e[57], e[58], e[59], e[60] = 0, 0, 0, 0
	crc := proto.CRC(e[21:])
	e[17], e[18], e[19], e[20] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
	return e
}

func TestConsumedTopicIsDeleted(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		store(c, "t", 0, 1, CompressionNone, "old")
		k := consumer(t, connect(t, c), mode)
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		read(t, k, 1)
		c.Delete("t")
		c.Create("t", 1)
		store(c, "t", 0, 1, CompressionNone, "new")
		if got, told := read(t, k, 1); len(got) > 0 || len(told) != 1 || !errors.Is(told[0], ErrUnknownTopic) {
			t.Fatalf("%v, %v", got, told)
		}
		if err := k.Seek(within(t), "t", 0, StartEarliest()); err != nil {
			t.Fatal(err)
		}
		if got, _ := read(t, k, 1); got[0] != "new" {
			t.Errorf("got %v", got)
		}
	})
}

func TestConsumedTopicGrows(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		k := consumer(t, connect(t, c, ClientMetadataAge(10*time.Millisecond)), mode, ConsumerFetchWait(10*time.Millisecond))
		if err := k.AssignTopic(within(t), "t", StartLatest()); err != nil {
			t.Fatal(err)
		}
		c.Grow("t", 3)
		store(c, "t", 2, 1, CompressionNone, "first of 2")
		if got, _ := read(t, k, 1); got[0] != "first of 2" {
			t.Errorf("got %v", got)
		}
	})
}

// TestReadAheadIsBounded lets nobody poll.
func TestReadAheadIsBounded(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 10)
		for p := range 10 {
			for range 50 {
				store(c, "t", p, 1, CompressionNone, strings.Repeat("x", 1000))
			}
		}
		const bound = 20_000
		k := consumer(t, connect(t, c), mode, ConsumerBufferBytes(bound), ConsumerFetchBytes(3000))
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		until(t, "something is read ahead", func() bool { return k.Buffered() > 10_000 })
		time.Sleep(20 * time.Millisecond) // more would come now, if it did
		if n := k.Buffered(); n > bound+1100 {
			t.Errorf("%d bytes are read ahead", n)
		}
		if got, _ := read(t, k, 500); len(got) != 500 {
			t.Errorf("%d records", len(got))
		}
	})
}

func TestManyPartitionsTakeTurns(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 300)
	k := consumer(t, connect(t, c), ConsumerFetchConcurrency(4), ConsumerFetchWait(time.Hour))
	if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
		t.Fatal(err)
	}
	for p := range 300 {
		store(c, "t", p, 1, CompressionNone, "x")
	}
	seen := map[uint32]bool{}
	for r, err := range k.Records(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[r.Partition] = true; len(seen) == 300 {
			break
		}
	}
}

// TestTurnsAreInOrder has a thousand partitions share a buffer that holds a few requests: each is asked before any is
// asked for the third time.
func TestTurnsAreInOrder(t *testing.T) {
	const partitions = 1000
	c := fake(t, 1)
	c.Create("t", partitions)
	var mu sync.Mutex
	asked := make([]int, partitions)
	missing, most := partitions, 0
	all := make(chan struct{})
	c.SetFault(func(m proto.Message) fakebroker.Fault {
		if f, ok := m.(*proto.FetchRequest); ok {
			mu.Lock()
			defer mu.Unlock()
			if asked[f.Partition]++; missing > 0 {
				most = max(most, asked[f.Partition])
			}
			if asked[f.Partition] == 1 {
				if missing--; missing == 0 {
					close(all)
				}
			}
		}
		return fakebroker.Fault{}
	})
	k := consumer(t, connect(t, c), ConsumerFetchBytes(1<<20), ConsumerBufferBytes(8<<20))
	if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-all:
	case <-within(t).Done():
		t.Fatalf("%d partitions have not been asked", missing)
	}
	mu.Lock()
	defer mu.Unlock()
	if most > 2 {
		t.Errorf("a partition was asked %d times before all had been asked once", most)
	}
}

func TestPollEndsWithCloseAndContext(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		k := consumer(t, connect(t, c), mode)
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := k.Poll(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ended := make(chan error)
		go func() {
			_, err := k.Poll(context.Background())
			ended <- err
		}()
		k.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		for range k.Records(context.Background()) {
			t.Error("a record after Close")
		}
	})
}

func TestAssignRefuses(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 2)
	k := consumer(t, connect(t, c))
	for want, err := range map[proto.Code]error{
		ErrUnknownTopic:     k.AssignTopic(within(t), "none", StartEarliest()),
		ErrInvalidPartition: k.AssignPartition(within(t), "t", 2, StartEarliest()),
		ErrInvalidName:      k.AssignTopic(within(t), "", StartEarliest()),
		ErrInvalidRequest:   k.Seek(within(t), "t", 0, StartEarliest()),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
	}
	if err := k.AssignPartition(within(t), "t", 0, StartOffset(-1)); !errors.Is(err, ErrInvalidRequest) {
		t.Error(err)
	}
}

// TestSeekWhilePolling seeks while another goroutine polls: what Poll returns after it was called after Seek is of the new
// place.
func TestSeekWhilePolling(t *testing.T) {
	eachMode(t, func(t *testing.T, mode ConsumerOption) {
		c := fake(t, 1)
		c.Create("t", 1)
		for range 20 {
			values := make([]string, 500)
			for i := range values {
				values[i] = strings.Repeat("x", 100)
			}
			store(c, "t", 0, 1, CompressionZstd, values...)
		}
		k := consumer(t, connect(t, c), mode, ConsumerPollRecords(100))
		if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			for {
				records, err := k.Poll(context.Background())
				if err != nil {
					done <- err
					return
				}
				for i, r := range records {
					if r.Offset != records[0].Offset+int64(i) {
						t.Errorf("offset %d behind %d", r.Offset, records[0].Offset)
					}
				}
			}
		}()
		for range 300 {
			if err := k.Seek(within(t), "t", 0, StartOffset(rand.Int64N(10_000))); err != nil {
				t.Fatal(err)
			}
		}
		k.Close()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}
