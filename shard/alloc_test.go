package shard

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// nullDisk ends every operation at the next reap and stores nothing: what is
// measured with it is the machine and the store.
type nullDisk struct {
	ops  []*core.DiskOp
	done []*core.DiskOp
	file core.FileID
}

func (d *nullDisk) Submit(op *core.DiskOp) bool {
	for each := op; each != nil; each = each.Next {
		each.N, each.Err = len(each.Buf), nil
		if each.Kind == core.DiskOpen || each.Kind == core.DiskCreate {
			d.file++
			each.File = d.file
		}
		d.ops = append(d.ops, each)
	}
	return true
}

func (d *nullDisk) reap(m *Machine) int {
	d.ops, d.done = d.done[:0], d.ops
	for _, op := range d.done {
		m.Complete(op)
	}
	return len(d.done)
}

// slabPool is a source that uses its slabs again.
type slabPool struct{ free map[int][]*core.Slab }

func (p *slabPool) Get(n int) *core.Slab {
	class := core.SlabClassBytes(n)
	if free := p.free[class]; len(free) > 0 {
		s := free[len(free)-1]
		p.free[class] = free[:len(free)-1]
		return s.Issue()
	}
	fresh := core.HeapSlabs{}.Get(class)
	return core.NewSlab(fresh.Bytes, p).Issue()
}

func (p *slabPool) Put(s *core.Slab) { p.free[len(s.Bytes)] = append(p.free[len(s.Bytes)], s) }

// nullCacheBytes is a cache that is full soon: until then it takes memory for each batch.
const nullCacheBytes = 8 << 20

// nullNode is one machine on a null disk with one topic.
type nullNode struct {
	*node
	disk  *nullDisk
	slabs *slabPool
	id    core.PartitionID
	batch []byte
	crc   uint32
}

func newNullNode(t testing.TB, settings ...string) *nullNode {
	n := &nullNode{disk: &nullDisk{}, slabs: &slabPool{free: map[int][]*core.Slab{}}}
	n.node = &node{t: t, clock: newTestClock(), defaults: testConfig, incoming: make([][]mail.Letter, 1), null: n}
	n.disks = openTestDisks(t, newMemFS(), 1)
	n.start(1)
	n.id = n.create("t", 1, settings...).Partitions[0].ID
	n.setBatch(batchSpec{records: 4, value: 200, producer: -1})
	n.outs[0].keep = false
	return n
}

// setBatch chooses what produce sends.
func (n *nullNode) setBatch(spec batchSpec) {
	batch := n.node.batch(spec)
	n.batch, n.crc = batch, batch.RecordsCRC()
}

func (n *nullNode) produce() {
	m := n.machines[0]
	slab := n.slabs.Get(core.BatchRoomBytes + len(n.batch) + core.DiskAlignment)
	copy(slab.Bytes[core.BatchRoomBytes:], n.batch)
	r := mail.Request{Kind: mail.RequestProduce, Acks: 1, Partition: n.id, LeaderEpoch: -1, Received: n.clock.monotonic,
		Slab: slab, Start: core.BatchRoomBytes, Bytes: uint32(len(n.batch)), RecordsCRC: n.crc}
	m.Receive(&r)
}

func (n *nullNode) turns(count int) {
	m := n.machines[0]
	for range count {
		n.clock.monotonic += 20_000
		n.clock.wall += 20_000
		n.disk.reap(m)
		m.Tick()
		m.Flush()
	}
}

func TestProduceTurnAllocatesNothing(t *testing.T) {
	for _, level := range []string{"sync", "batch", "none"} {
		n := newNullNode(t, "durability", level)
		for range 3000 { // pools and tails grow to what they need
			n.produce()
			n.turns(2)
		}
		before := n.outs[0].count
		allocations := testing.AllocsPerRun(500, func() {
			for range 8 {
				n.produce()
			}
			n.turns(2)
		})
		n.turns(5)
		if got := n.outs[0].count - before; got != 8*501 {
			t.Errorf("%s: %d answers", level, got)
		}
		if allocations >= 1 {
			t.Errorf("%s: %v allocations per turn of 8 produces", level, allocations)
		}
	}
}

// A batch that is large enough goes past the journal, straight to its segment.
func TestLargeBatchTurnAllocatesNothing(t *testing.T) {
	for _, level := range []string{"sync", "batch", "none"} {
		n := newNullNode(t, "durability", level)
		n.setBatch(batchSpec{records: 100, value: 1000, producer: -1})
		if len(n.batch) < core.DirectWriteBytesMin {
			t.Fatalf("a batch of %d bytes is none of the large ones", len(n.batch))
		}
		for range 500 { // the cache is full, and gives its memory back
			n.produce()
			n.turns(4)
		}
		before := n.outs[0].count
		allocations := testing.AllocsPerRun(500, func() {
			n.produce()
			n.turns(4)
		})
		if got := n.outs[0].count - before; got != 501 {
			t.Errorf("%s: %d answers", level, got)
		}
		if allocations >= 1 {
			t.Errorf("%s: %v allocations per turn of a large batch", level, allocations)
		}
	}
}

func TestFetchTurnAllocatesNothing(t *testing.T) {
	n := newNullNode(t)
	for range 100 {
		n.produce()
		n.turns(3)
	}
	out := n.outs[0]
	out.parcels = true
	m := n.machines[0]
	fetch := func() {
		f := mail.Request{Kind: mail.RequestFetch, Partition: n.id, LeaderEpoch: -1, LastEpoch: -1, Offset: 100, BytesMax: 8 << 10, Received: n.clock.monotonic}
		wait := mail.Request{Kind: mail.RequestFetch, Partition: n.id, LeaderEpoch: -1, LastEpoch: -1,
			Offset: m.partitions[n.id].highWatermark(), BytesMin: 1, Wait: 1e9, Received: n.clock.monotonic}
		m.Receive(&f)
		m.Receive(&wait)
		n.turns(1)
		n.produce() // wakes the waiter
		n.turns(3)
		for i, parcel := range out.out {
			m.Receive(&mail.Request{Kind: mail.RequestReturn, Parcel: parcel})
			out.out[i] = nil
		}
		out.out = out.out[:0]
	}
	for range 3000 {
		fetch()
	}
	before := out.count
	allocations := testing.AllocsPerRun(500, fetch)
	if got := out.count - before; got != 3*501 {
		t.Errorf("%d answers", got)
	}
	if allocations >= 1 {
		t.Errorf("%v allocations per turn of 2 fetches and a produce", allocations)
	}
}

func BenchmarkProduceTurn(b *testing.B) {
	n := newNullNode(b)
	for b.Loop() {
		for range 64 {
			n.produce()
		}
		n.turns(3)
	}
	b.ReportMetric(float64(b.N)*64/b.Elapsed().Seconds(), "batches/s")
}

func BenchmarkFetchTurn(b *testing.B) {
	n := newNullNode(b)
	for range 100 {
		n.produce()
		n.turns(3)
	}
	m, out := n.machines[0], n.outs[0]
	out.parcels = true
	for b.Loop() {
		for range 16 {
			m.Receive(&mail.Request{Kind: mail.RequestFetch, Partition: n.id, LeaderEpoch: -1, LastEpoch: -1, Offset: 100, BytesMax: 64 << 10, Received: n.clock.monotonic})
		}
		n.turns(2)
		for i, parcel := range out.out {
			m.Receive(&mail.Request{Kind: mail.RequestReturn, Parcel: parcel})
			out.out[i] = nil
		}
		out.out = out.out[:0]
	}
	b.ReportMetric(float64(b.N)*16/b.Elapsed().Seconds(), "fetches/s")
}
