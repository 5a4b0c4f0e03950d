package shard

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// nullQueue is a null node with a member that settles what it is given, each record on its own.
type nullQueue struct {
	*nullNode
	settle  mail.Settle
	settled int
}

func newNullQueue(t testing.TB, settings ...string) *nullQueue {
	q := &nullQueue{nullNode: newNullNode(t, settings...)}
	q.outs[0].parcels = true
	m := q.machines[0]
	m.Receive(&mail.Request{Kind: mail.RequestLease, Conn: mail.ConnRef{Slot: 1}, ID: 7, Partition: q.id, LeaderEpoch: -1, Received: q.clock.monotonic,
		Body: &mail.Lease{Group: "g", Member: "m", Owner: 1}})
	q.turns(10)
	m.Receive(&mail.Request{Kind: mail.RequestLeaseCredit, Conn: mail.ConnRef{Slot: 1}, ID: 7, Records: 1 << 30})
	q.settle = mail.Settle{Group: "g", Member: "m", Ranges: make([]proto.SettledRange, 0, 4096)}
	return q
}

// turn produces so many batches, and settles what has been delivered.
func (q *nullQueue) turn(batches int) {
	for range batches {
		q.produce()
	}
	q.turns(3)
	m, out := q.machines[0], q.outs[0]
	ranges := q.settle.Ranges[:0]
	for i, parcel := range out.out {
		for _, r := range parcel.Owner.(*grant).leased.Ranges {
			for o := r.BaseOffset; o < r.NextOffset; o++ {
				ranges = append(ranges, proto.SettledRange{BaseOffset: o, NextOffset: o + 1, Attempt: r.Attempt})
			}
		}
		m.Receive(&mail.Request{Kind: mail.RequestReturn, Parcel: parcel})
		out.out[i] = nil
	}
	out.out = out.out[:0]
	q.settle.Ranges = ranges
	q.settled += len(ranges)
	m.Receive(&mail.Request{Kind: mail.RequestSettle, Conn: mail.ConnRef{Slot: 1}, ID: 8, Partition: q.id, LeaderEpoch: -1, Received: q.clock.monotonic, Body: &q.settle})
	q.turns(2)
}

// A record that is leased and settled on its own allocates nothing; a SETTLE allocates its answer.
func TestQueueTurnAllocatesNothing(t *testing.T) {
	for _, settings := range [][]string{{"queue.attempts", "durable"}, {"queue.attempts", "relaxed"}} {
		q := newNullQueue(t, settings...)
		for range 3000 {
			q.turn(8)
		}
		before := q.settled
		if allocations := testing.AllocsPerRun(500, func() { q.turn(8) }); allocations > 6 {
			t.Errorf("%v: %v allocations per turn of 32 records", settings, allocations)
		}
		if got := q.settled - before; got < 501*32-64 {
			t.Errorf("%v: %d records were settled", settings, got)
		}
		w := q.machines[0].partitions[q.id].cursors.table.Window("g")
		if end := q.machines[0].partitions[q.id].highWatermark(); w.Low() < int64(end-core.Offset(64)) {
			t.Errorf("%v: low %d of %d", settings, w.Low(), end)
		}
	}
}

// BenchmarkQueueTurn is the shard's part of a record from its production to its settlement, each settled on its own.
func BenchmarkQueueTurn(b *testing.B) {
	q := newNullQueue(b)
	for b.Loop() {
		q.turn(64)
	}
	b.ReportMetric(float64(q.settled)/b.Elapsed().Seconds(), "records/s")
}
