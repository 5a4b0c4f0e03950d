package reactor

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment/disk"
)

// BenchmarkLoop measures sync produces of one record through the rings: how
// many per second with a window, and how long one takes alone, for several
// bounds of the spin.
func BenchmarkLoop(b *testing.B) {
	for _, spin := range []time.Duration{0, spinShort, 50 * time.Microsecond, spinLong} {
		for _, window := range []int{1, 16, 512} {
			b.Run(fmt.Sprintf("spin=%v/window=%d", spin, window), func(b *testing.B) {
				folder, err := disk.Open(b.TempDir(), core.DiskAuto)
				if err != nil {
					b.Fatal(err)
				}
				node, reactors := startNode(b, NewFolderDisks(folder, nil), testConfig(1, 1), nil)
				// Before the first request the loop is idle; it reads the bound with its next turn.
				node.loops[0].spinLimit.Store(int64(spin))
				benchmarkLoop(b, node, reactors[0], window)
				if err := node.Stop(10 * time.Second); err != nil {
					b.Fatal(err)
				}
				if err := folder.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func benchmarkLoop(b *testing.B, node *Node, r *testReactor, window int) {
	topic := r.create("t", 16)
	var builder proto.BatchBuilder
	if err := builder.Append(&proto.Record{Timestamp: time.Now().UnixMilli(), Value: make([]byte, 256)}); err != nil {
		b.Fatal(err)
	}
	batch, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	link := node.Links[0][0]
	latency := hdrhistogram.New(1_000, 10_000_000_000, 2)
	sent, done := 0, 0
	send := func() bool {
		slab := link.Arena.Get(core.BatchRoomBytes + len(batch) + core.DiskAlignment)
		if slab == nil {
			return false
		}
		copy(slab.Bytes[core.BatchRoomBytes:], batch)
		sent++
		return link.Requests.Push(mail.Request{Kind: mail.RequestProduce, Acks: 1, LeaderEpoch: -1, ID: uint64(sent),
			Partition: topic.Partitions[sent%16].ID, Slab: slab, Start: core.BatchRoomBytes, Bytes: uint32(len(batch)),
			RecordsCRC: batch.RecordsCRC(), Received: r.clock.Monotonic()})
	}
	b.ResetTimer()
	for done < b.N {
		for sent < b.N && sent-done < window {
			if !send() {
				break
			}
		}
		link.Shard.Kick()
		for a, ok := link.Answers.Pop(); ok; a, ok = link.Answers.Pop() {
			if a.Err != nil {
				b.Fatal(a.Err)
			}
			done++
			_ = latency.RecordValue(r.clock.Monotonic() - a.Received)
		}
		runtime.Gosched()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "produces/s")
	b.ReportMetric(float64(latency.ValueAtQuantile(50))/1e3, "p50-µs")
	b.ReportMetric(float64(latency.ValueAtQuantile(99))/1e3, "p99-µs")
}
