package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// packed is what a parcel holds.
type packed struct {
	parcel    *mail.Parcel
	records   int64
	lastEpoch core.LeaderEpoch // of the last batch
}

// pack moves what a read found into a parcel. The read's lists are swapped
// against the parcel's empty ones, so that neither is made anew.
func (m *Machine) pack(r *segment.Read) packed {
	c := packed{parcel: m.pools.parcel(), lastEpoch: -1}
	c.parcel.Slices, r.Slices = r.Slices, c.parcel.Slices[:0]
	c.parcel.Slabs, r.Slabs = r.Slabs, c.parcel.Slabs[:0]
	for _, slice := range c.parcel.Slices {
		c.parcel.Bytes += len(slice)
		c.count(slice)
	}
	m.copyTogether(c.parcel)
	return c
}

// count walks over the batches of a slice by their lengths.
func (c *packed) count(slice []byte) {
	for len(slice) > 0 {
		n, ok := proto.BatchBytes(slice)
		core.Assert(ok && n >= proto.BatchHeaderBytes && n <= int64(len(slice)), "a read gives whole batches")
		batch := proto.Batch(slice[:n])
		c.records += int64(batch.Count())
		c.lastEpoch = core.LeaderEpoch(batch.LeaderEpoch())
		slice = slice[n:]
	}
}

// copyTogether makes one slice of many small ones.
func (m *Machine) copyTogether(parcel *mail.Parcel) {
	count := len(parcel.Slices)
	if count < 2 || parcel.Bytes/count >= copySliceBytes || parcel.Bytes > core.SlabBytesMax {
		return
	}
	slab := m.ports.Slabs.Get(parcel.Bytes)
	if slab == nil { // rare, and a write of more slices than the socket takes would be wrong
		slab = core.HeapSlabs{}.Get(parcel.Bytes)
	}
	used := slab.Bytes[:0]
	for _, slice := range parcel.Slices {
		used = append(used, slice...)
	}
	releaseSlabs(parcel.Slabs)
	clear(parcel.Slices)
	parcel.Slices = append(parcel.Slices[:0], used)
	parcel.Slabs = append(parcel.Slabs[:0], slab)
}

func releaseSlabs(slabs []*core.Slab) {
	for i, slab := range slabs {
		slab.Release()
		slabs[i] = nil
	}
}

// discard gives back what a read found and nobody wants.
func discard(r *segment.Read) {
	releaseSlabs(r.Slabs)
	clear(r.Slices)
	r.Slices, r.Slabs = r.Slices[:0], r.Slabs[:0]
}

// hold and unhold count the memory that answers for a connection take.
func (m *Machine) hold(p *peer, bytes int64) {
	m.memory.parcels += bytes
	p.parcelBytes += bytes
}

func (m *Machine) unhold(p *peer, bytes int64) {
	m.memory.parcels -= bytes
	p.parcelBytes -= bytes
	m.resumeStarved()
	m.releasePeer(p)
}

// parcelReturned goes on with what the parcel belonged to.
func (m *Machine) parcelReturned(parcel *mail.Parcel) {
	releaseSlabs(parcel.Slabs)
	clear(parcel.Slices)
	owner, bytes := parcel.Owner, int64(parcel.Bytes)
	*parcel = mail.Parcel{Slices: parcel.Slices[:0], Slabs: parcel.Slabs[:0]}
	m.pools.putParcel(parcel)
	switch owner := owner.(type) {
	case *fetch:
		owner.returned(bytes)
	case *delivery:
		owner.returned(bytes)
	default:
		core.Assert(false, "a parcel belongs to a fetch or to a push")
	}
}
