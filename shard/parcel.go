package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// pack moves what a read found into a parcel. The read's lists are swapped
// against the parcel's empty ones, so that neither is made anew. Short runs have
// been copied together by the store, so the parcel fits one socket write.
func (m *Machine) pack(r *segment.Read) *mail.Parcel {
	parcel := m.pools.parcel()
	parcel.Slices, r.Slices = r.Slices, parcel.Slices[:0]
	parcel.Slabs, r.Slabs = r.Slabs, parcel.Slabs[:0]
	parcel.Bytes = r.Bytes
	return parcel
}

// hold and unhold count the memory that answers for a connection take.
func (m *Machine) hold(p *peer, bytes int64) {
	m.memory.parcels += bytes
	p.parcelBytes += bytes
}

// settleHold counts what was found instead of what was reserved for it.
func (m *Machine) settleHold(p *peer, found, reserved int64) {
	m.hold(p, found-reserved)
	if found < reserved {
		m.resumePeer(p)
	}
}

func (m *Machine) unhold(p *peer, bytes int64) {
	m.memory.parcels -= bytes
	p.parcelBytes -= bytes
	m.resumePeer(p)
	m.releasePeer(p)
}

// unpack gives back the memory of a parcel's batches, and the parcel.
func (m *Machine) unpack(parcel *mail.Parcel) {
	for i, slab := range parcel.Slabs {
		slab.Release()
		parcel.Slabs[i] = nil
	}
	clear(parcel.Slices)
	*parcel = mail.Parcel{Slices: parcel.Slices[:0], Slabs: parcel.Slabs[:0]}
	m.pools.putParcel(parcel)
}

// parcelReturned goes on with what the parcel belonged to.
func (m *Machine) parcelReturned(parcel *mail.Parcel) {
	owner, bytes := parcel.Owner, int64(parcel.Bytes)
	m.unpack(parcel)
	switch owner := owner.(type) {
	case *fetch:
		owner.returned(bytes)
	case *delivery:
		owner.returned(bytes)
	case *grant:
		owner.returned(bytes)
	default:
		core.Assert(false, "a parcel belongs to a fetch, a push or a delivery of leased records")
	}
}
