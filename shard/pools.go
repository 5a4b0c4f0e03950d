package shard

import (
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// pools keep what one request needs and the next can use again, so that steady
// work allocates nothing. They hold at most poolMax of each.
type pools struct {
	acks       []*ack
	fetches    []*fetch
	deliveries []*delivery
	parcels    []*mail.Parcel
	peers      []*peer

	grants      []*grant
	settlements []*settlement
	queueTurns  []*queueTurn

	// Used by one call at a time.
	entry   segment.Entry
	records proto.RecordIterator
}

const poolMax = 4096

func take[T any](pool *[]*T) *T {
	if n := len(*pool); n > 0 {
		item := (*pool)[n-1]
		(*pool)[n-1] = nil
		*pool = (*pool)[:n-1]
		return item
	}
	return new(T)
}

func put[T any](pool *[]*T, item *T) {
	if len(*pool) < poolMax {
		*pool = append(*pool, item)
	}
}

func (p *pools) ack() *ack { return take(&p.acks) }

func (p *pools) putAck(a *ack) {
	*a = ack{}
	put(&p.acks, a)
}

func (p *pools) fetch() *fetch { return take(&p.fetches) }

func (p *pools) putFetch(f *fetch) {
	*f = fetch{read: segment.Read{Slices: f.read.Slices[:0], Slabs: f.read.Slabs[:0]}}
	put(&p.fetches, f)
}

func (p *pools) delivery() *delivery { return take(&p.deliveries) }

func (p *pools) putDelivery(d *delivery) {
	*d = delivery{read: segment.Read{Slices: d.read.Slices[:0], Slabs: d.read.Slabs[:0]}}
	put(&p.deliveries, d)
}

func (p *pools) parcel() *mail.Parcel { return take(&p.parcels) }

func (p *pools) putParcel(parcel *mail.Parcel) { put(&p.parcels, parcel) }

func (p *pools) peer() *peer { return take(&p.peers) }

func (p *pools) putPeer(gone *peer) {
	*gone = peer{fetches: gone.fetches[:0], subscriptions: gone.subscriptions[:0], leasers: gone.leasers[:0]}
	put(&p.peers, gone)
}

func (p *pools) grant() *grant { return take(&p.grants) }

func (p *pools) putGrant(g *grant) {
	clear(g.slices)
	*g = grant{read: segment.Read{Slices: g.read.Slices[:0], Slabs: g.read.Slabs[:0]}, slices: g.slices[:0],
		leased: mail.Leased{Ranges: g.leased.Ranges[:0]}}
	put(&p.grants, g)
}

func (p *pools) settlement() *settlement { return take(&p.settlements) }

func (p *pools) putSettlement(s *settlement) {
	*s = settlement{}
	put(&p.settlements, s)
}

func (p *pools) queueTurn() *queueTurn { return take(&p.queueTurns) }

func (p *pools) putQueueTurn(t *queueTurn) {
	clear(t.ops)
	clear(t.settles)
	clear(t.grants)
	*t = queueTurn{ops: t.ops[:0], settles: t.settles[:0], grants: t.grants[:0]}
	put(&p.queueTurns, t)
}
