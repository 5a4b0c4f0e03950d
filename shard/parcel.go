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

// parcelReturned goes on with what the parcel belonged to.
func (m *Machine) parcelReturned(parcel *mail.Parcel) {
	for i, slab := range parcel.Slabs {
		slab.Release()
		parcel.Slabs[i] = nil
	}
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
