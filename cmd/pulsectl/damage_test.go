package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

const (
	damagePartitions = 2
	damageRecords    = 8_000 // of each partition: several segments
	damageValueBytes = 300
	damageBatch      = 100
)

// damageRoundsEnv says how often each kind of file is hurt; each round has a seed of its own.
const damageRoundsEnv = "DAMAGE_ROUNDS"

// TestBitsFlipOnDisk flips bits in the files of a real broker, stopped and running,
// and cuts its indexes. It starts, serves every record that is not hurt exactly,
// names exactly the offsets of those that are, never a wrong byte, and appends
// behind them; reading again in the background finds what a reader finds. Indexes
// and states cost no record.
func TestBitsFlipOnDisk(t *testing.T) {
	d := &damageBroker{t: t, scriptBroker: scriptBroker{program: buildBroker(t), data: filepath.Join(t.TempDir(), "whole")}}
	t.Cleanup(d.kill)
	d.begin()
	d.fill()
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	whole := d.data
	rounds := 1
	if text := os.Getenv(damageRoundsEnv); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("%s=%q: a number of rounds, at least 1", damageRoundsEnv, text)
		}
	}
	for _, c := range []struct {
		name    string
		pattern string // of files below the data folder
		hurt    func(r *rand.Rand, name string) int
		running bool
		lossy   bool
	}{
		{"segments", "topics/*/?/*.log", flipBits(3), false, true},
		{"segments of a running broker", "topics/*/?/*.log", flipBits(2), true, true},
		{"headers of segments", "topics/*/?/*.log", flipBitsBelow(4096), false, false},
		{"indexes", "topics/*/?/*.index", flipBits(2), false, false},
		{"indexes cut", "topics/*/?/*.index", cut, false, false},
		{"indexes of a running broker", "topics/*/?/*.index", flipBits(2), true, false},
		{"states", "topics/*/?/*.state", flipBits(2), false, false},
		{"journal", "layout-*/shard-*/*.jnl", flipValue, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for round := range rounds {
				seed := uint64(round)
				if rounds > 1 {
					seed = rand.Uint64()
				}
				d.round(t, whole, seed, func(r *rand.Rand) (hurt int) {
					names, err := filepath.Glob(filepath.Join(d.data, filepath.FromSlash(c.pattern)))
					if err != nil || len(names) == 0 {
						t.Fatalf("no file is %s: %v", c.pattern, err)
					}
					for _, name := range names {
						// The metadata's own log is another matter: without it there is no start.
						if base := filepath.Base(filepath.Dir(filepath.Dir(name))); base != "00000000000000000000000000000000" {
							hurt += c.hurt(r, name)
						}
					}
					return hurt
				}, c.running, c.lossy)
			}
		})
	}
}

// damageBroker is a real broker with known records.
type damageBroker struct {
	scriptBroker
	t       *testing.T
	address string
	client  *pulsemq.Client
}

func (d *damageBroker) begin() {
	d.t.Helper()
	err := d.start([]string{"--set", "storage.scrub-interval=unlimited", "--set", "storage.scrub-rate=1GiB", "--set", "storage.tail-cache=8MiB"})
	if err != nil {
		d.t.Fatal(err)
	}
	d.address = d.process.Address
	if d.client, err = pulsemq.Connect(d.context(), d.address); err != nil {
		d.t.Fatal(err)
	}
}

func (d *damageBroker) end() {
	d.t.Helper()
	_ = d.client.Close()
	if err := d.stop(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *damageBroker) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	d.t.Cleanup(cancel)
	return ctx
}

// damageValue is the value of a record: no other has it, and every bit is told by its place.
func damageValue(partition uint32, offset int64) []byte {
	b := binary.BigEndian.AppendUint64([]byte("damage test value"), uint64(offset)<<8|uint64(partition))
	r := rand.New(rand.NewPCG(uint64(partition), uint64(offset)))
	for len(b) < damageValueBytes {
		b = append(b, byte(r.Uint32()))
	}
	return b
}

func (d *damageBroker) fill() {
	d.t.Helper()
	_, err := d.client.Admin().CreateTopic(d.context(), pulsemq.TopicSpec{Name: "t", Partitions: damagePartitions,
		Config: map[string]string{"segment.bytes": "1040KiB"}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.produce(0, damageRecords)
}

// produce sends the records [from, to) of each partition, which get these offsets.
func (d *damageBroker) produce(from, to int64) {
	d.t.Helper()
	p, err := d.client.NewProducer(pulsemq.ProducerBatchRecords(damageBatch))
	if err != nil {
		d.t.Fatal(err)
	}
	ctx := d.context()
	for offset := from; offset < to; offset++ {
		for n := range uint32(damagePartitions) {
			m := &pulsemq.Message{Topic: "t", Partition: pulsemq.PartitionNumber(n), Value: damageValue(n, offset)}
			if err := p.SendAsync(ctx, m, func(r pulsemq.Result, err error) {
				if err != nil || r.Offset != offset {
					d.t.Errorf("partition %d: %+v, %v, want offset %d", n, r, err, offset)
				}
			}); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	if err := p.Close(ctx); err != nil {
		d.t.Fatal(err)
	}
}

// consume reads everything up to an end, and returns the ranges that were said to be
// damaged. What is neither read nor among them is a loss that nobody told of.
func (d *damageBroker) consume(t *testing.T, end int64) (lost []offsetRange) {
	t.Helper()
	k, err := d.client.NewConsumer(pulsemq.ConsumerStopAtEnd(), pulsemq.ConsumerSkipCorrupt(true))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.AssignTopic(d.context(), "t", pulsemq.StartEarliest()); err != nil {
		t.Fatal(err)
	}
	next := make([]int64, damagePartitions)
	for r, err := range k.Records(d.context()) {
		if told := (*pulsemq.PartitionError)(nil); errors.As(err, &told) && errors.Is(err, pulsemq.ErrCorruptRecord) && !told.Stopped {
			var refusal *pulsemq.Error
			if !errors.As(err, &refusal) || refusal.Damage == nil || refusal.Damage.NextOffset != told.Next || told.Base != next[told.Partition] {
				t.Fatalf("at offset %d: %+v, %+v", next[told.Partition], told, refusal)
			}
			lost = append(lost, offsetRange{told.Partition, told.Base, told.Next})
			next[told.Partition] = told.Next
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != next[r.Partition] || !bytes.Equal(r.Value, damageValue(r.Partition, r.Offset)) {
			t.Fatalf("partition %d: offset %d with a value of %d bytes where %d is next", r.Partition, r.Offset, len(r.Value), next[r.Partition])
		}
		next[r.Partition]++
	}
	for n, at := range next {
		if at != end {
			t.Fatalf("partition %d ends at offset %d, not at %d", n, at, end)
		}
	}
	return lost
}

type offsetRange struct {
	partition  uint32
	base, next int64
}

// joined sorts ranges and makes one of those that touch.
func joined(ranges []offsetRange) (out []offsetRange) {
	slices.SortFunc(ranges, func(a, b offsetRange) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.base, b.base))
	})
	for _, r := range ranges {
		if n := len(out); n > 0 && out[n-1].partition == r.partition && out[n-1].next == r.base {
			out[n-1].next = r.next
			continue
		}
		out = append(out, r)
	}
	return out
}

// damages are the ranges that the broker lists, after it has read everything again
// when verify is set.
func (d *damageBroker) damages(t *testing.T, verify bool) (listed []offsetRange) {
	t.Helper()
	admin := d.client.Admin()
	if verify {
		if _, err := admin.VerifyTopic(d.context(), "t"); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		described, err := admin.DescribeTopic(d.context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		busy := false
		listed = nil
		for _, p := range described.Partitions {
			if p.Err != nil || p.Storage == nil {
				t.Fatalf("%+v", p)
			}
			busy = busy || p.Storage.Verifying
			for _, one := range p.Storage.Damages {
				listed = append(listed, offsetRange{p.Number, one.Base, one.Next})
			}
		}
		if !busy {
			return listed
		}
		if time.Now().After(deadline) {
			t.Fatal("reading again does not end")
		}
	}
}

func (d *damageBroker) round(t *testing.T, whole string, seed uint64, hurt func(*rand.Rand) int, running, lossy bool) {
	d.t = t
	d.data = filepath.Join(t.TempDir(), "hurt")
	if err := os.CopyFS(d.data, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(d.data)
	t.Cleanup(d.kill)
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 11))
	var places int
	if !running {
		places = hurt(random)
	}
	d.begin()
	if running {
		if lost := d.consume(t, damageRecords); len(lost) > 0 {
			t.Fatalf("before anything was hurt: %v", lost)
		}
		places = hurt(random)
	}
	if places == 0 {
		t.Fatal("nothing was hurt")
	}
	found := d.damages(t, true)
	lost := d.consume(t, damageRecords)
	records := int64(0)
	for _, r := range lost {
		records += r.next - r.base
		if !slices.ContainsFunc(found, func(f offsetRange) bool { return f.partition == r.partition && f.base <= r.base && f.next >= r.next }) {
			t.Errorf("reading again did not find %v, only %v", r, found)
		}
	}
	t.Logf("%d places hurt: %d ranges with %d records are lost, %d are listed", places, len(lost), records, len(found))
	switch {
	case !lossy && len(lost)+len(found) > 0:
		t.Errorf("no record was hurt, and %v are lost, %v listed", lost, found)
	case len(lost) > len(found) || len(found) > places || records > int64(places)*10*damageBatch:
		t.Errorf("%d places were hurt, and %v are lost, %v listed", places, lost, found)
	}
	d.produce(damageRecords, damageRecords+10)
	d.end()
	// The next start knows as much, without reading everything.
	d.begin()
	if again := d.consume(t, damageRecords+10); !slices.Equal(joined(again), joined(lost)) {
		t.Errorf("after another start %v are lost, before it %v", again, lost)
	}
	d.end()
}

// flipBits flips so many bits of a file, anywhere.
func flipBits(count int) func(*rand.Rand, string) int { return flipBitsIn(count, 1<<62) }

// flipBitsBelow flips one bit in the beginning of a file.
func flipBitsBelow(limit int64) func(*rand.Rand, string) int { return flipBitsIn(1, limit) }

func flipBitsIn(count int, limit int64) func(*rand.Rand, string) int {
	return func(r *rand.Rand, name string) int {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || info.Size() == 0 {
			return 0
		}
		for range count {
			at := r.Int64N(min(info.Size(), limit))
			b := []byte{0}
			_, err := f.ReadAt(b, at)
			b[0] ^= 1 << r.IntN(8)
			if _, e := f.WriteAt(b, at); err != nil || e != nil {
				panic(errors.Join(err, e))
			}
		}
		return count
	}
}

// cut shortens a file, to nothing or by any number of bytes.
func cut(r *rand.Rand, name string) int {
	info, err := os.Stat(name)
	if err == nil {
		err = os.Truncate(name, r.Int64N(max(info.Size(), 1)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	return 1
}

// flipValue flips a bit inside a record's value, which is how a journal is hurt
// without hurting the metadata that it also holds.
func flipValue(r *rand.Rand, name string) int {
	b, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	var places []int
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte("damage test value"))
		if i < 0 {
			break
		}
		places = append(places, at+i)
		at += i + 1
	}
	if len(places) == 0 {
		return 0
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	at := places[r.IntN(len(places))] + r.IntN(damageValueBytes)
	if _, err := f.WriteAt([]byte{b[at] ^ 1}, int64(at)); err != nil {
		panic(fmt.Errorf("%s: %w", name, err))
	}
	return 1
}
