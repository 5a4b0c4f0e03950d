package segment_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/arena"
	"github.com/pulsemq/pulsemq/segment"
	"github.com/pulsemq/pulsemq/segment/disk"
)

// Appends against the real disk, durable before they count, as a shard drives
// them: partitions take turns, each with a bounded number of batches in flight.
func BenchmarkDiskSmall(b *testing.B)  { benchmarkDisk(b, 128, 1, 256, 16) }
func BenchmarkDiskMedium(b *testing.B) { benchmarkDisk(b, 128, 1000, 256, 1) }
func BenchmarkDiskLarge(b *testing.B)  { benchmarkDisk(b, 4, 1000, 256, 8) }

type benchOwner struct{}

func (benchOwner) Advanced(*segment.Log)                                     {}
func (benchOwner) RolledBack(*segment.Log, core.Offset, error)               {}
func (benchOwner) Snapshot(b []byte) []byte                                  { return b }
func (benchOwner) Restore([]byte) error                                      { return nil }
func (benchOwner) Excerpt(b []byte, _ *segment.FrameHeader, _ []byte) []byte { return b }
func (benchOwner) Replay(*segment.FrameHeader, []byte)                       {}

type systemClock struct{ start time.Time }

func (c systemClock) Now() int64       { return time.Now().UnixNano() }
func (c systemClock) Monotonic() int64 { return int64(time.Since(c.start)) }

// goWorkers runs jobs on goroutines and hands them back to the loop.
type goWorkers struct{ done chan core.Job }

func (w goWorkers) Submit(j core.Job) bool {
	go func() { j.Run(); w.done <- j }()
	return true
}

func benchmarkDisk(b *testing.B, partitions, records, size, inFlight int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	folder, err := disk.Open(b.TempDir(), core.DiskAuto)
	if err != nil {
		b.Skip(err)
	}
	defer folder.Close()
	waker, err := ring.NewWaker()
	if err != nil {
		b.Fatal(err)
	}
	defer waker.Close()
	driver, choice, err := folder.Driver(waker, disk.Bounds{OpsMax: 1024})
	if err != nil {
		b.Fatal(err)
	}
	slabs, err := arena.NewLocal(512 << 20)
	if err != nil {
		b.Fatal(err)
	}
	data, err := segment.OpenFolder(folder.FS(), segment.FolderOptions{Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	clock := systemClock{time.Now()}
	workers := goWorkers{make(chan core.Job, 1024)}
	store, err := segment.OpenStore(data, 0, segment.Ports{Disk: driver, FS: folder.FS(), Clock: clock, Workers: workers, Slabs: slabs}, segment.Options{CacheBytes: 192 << 20})
	if err != nil {
		b.Fatal(err)
	}
	var logs []*segment.Log
	for i := range partitions {
		id := segment.LogIdentity{Partition: core.PartitionID(16 + i), Topic: core.TopicID{1}, Number: core.PartitionNumber(i)}
		logs = append(logs, store.CreateLog(id, segment.LogOptions{}, benchOwner{}))
	}
	store.Start()

	batch := batchOf(b, records, size)
	crc := batch.RecordsCRC()
	appended := make([]core.Offset, partitions)
	out := make([]*core.DiskOp, 256)
	progress, progressAt := core.Offset(-1), time.Now()
	turn := func() {
		if sum := durableSum(logs); sum != progress {
			progress, progressAt = sum, time.Now()
		} else if time.Since(progressAt) > 10*time.Second {
			b.Fatalf("nothing became durable for 10 s: %+v, %d operations pending", store.Stats(), driver.Pending())
		}
		store.Flush(clock.Monotonic())
		if err := driver.Flush(); err != nil {
			b.Fatal(err)
		}
		n := driver.Reap(out)
		for _, op := range out[:n] {
			op.Owner.Complete(op)
		}
		for {
			select {
			case j := <-workers.done:
				j.Done()
				continue
			default:
			}
			break
		}
		if n == 0 && driver.Pending() > 0 {
			waker.Announce()
			if err := driver.Park(200_000); err != nil {
				b.Fatal(err)
			}
			waker.Retract()
		}
	}
	window := core.Offset(inFlight * records)
	done := 0
	b.SetBytes(int64(len(batch)))
	b.ResetTimer()
	for done < b.N {
		for i, l := range logs {
			for l.EndOffset()-l.DurableOffset() < window && done < b.N {
				slab := slabs.Get(core.BatchRoomBytes + len(batch))
				if slab == nil {
					break
				}
				copy(slab.Bytes[core.BatchRoomBytes:], batch)
				stored := proto.Batch(slab.Bytes[core.BatchRoomBytes : core.BatchRoomBytes+len(batch)])
				stored.SetBaseOffset(int64(l.EndOffset()))
				stored.SetLeaderEpoch(int32(l.Term()))
				e := segment.Entry{
					Slab: slab, Start: core.BatchRoomBytes, Bytes: uint32(len(batch)), BaseOffset: l.EndOffset(),
					Span: uint32(records), MaxTimestamp: 1, RecordsCRC: crc, Level: core.DurabilitySync, AppendTime: clock.Now(),
				}
				if err := store.Append(l, &e); err != nil {
					slab.Release()
					break
				}
				done++
				appended[i] = l.EndOffset()
			}
		}
		turn()
	}
	for durableSum(logs) < core.Offset(done*records) {
		turn()
	}
	b.StopTimer()
	st := store.Stats()
	b.ReportMetric(float64(done)*float64(records)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(st.WriteAmplification(), "amplification")
	b.ReportMetric(float64(st.AppendBytes)/float64(max(1, st.JournalSyncs+st.SegmentSyncs)), "B/sync")
	b.Logf("%v; %+v", choice, st)
	store.Stop()
	progressAt = time.Now().Add(time.Minute)
	for !store.Stopped() {
		if err := store.Err(); err != nil {
			b.Fatal(err)
		}
		store.Tick(clock.Monotonic())
		turn()
	}
}

func durableSum(logs []*segment.Log) (sum core.Offset) {
	for _, l := range logs {
		sum += l.DurableOffset()
	}
	return sum
}

func batchOf(b *testing.B, records, size int) proto.Batch {
	var builder proto.BatchBuilder
	builder.Reset(proto.CodecNone)
	for range records {
		if err := builder.Append(&proto.Record{Timestamp: 1, Value: make([]byte, size)}); err != nil {
			b.Fatal(err)
		}
	}
	batch, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	return append(proto.Batch(nil), batch...)
}
