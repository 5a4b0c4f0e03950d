package shard

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// peerKey names a connection of a reactor.
type peerKey struct {
	reactor uint8
	conn    mail.ConnRef
}

// peer is what a shard holds for one connection. It exists while there is
// something to hold.
type peer struct {
	key           peerKey
	fetches       []*fetch
	subscriptions []*subscription // in the order of their creation
	leasers       []*leaser       // in the same
	parcelBytes   int64           // out, or being read

	// Waiting for the connection's own share of the memory. They are empty while
	// parcelBytes is 0, so that there is always something whose return lets them on.
	starved core.Queue[*fetch]
	hungry  core.Queue[*subscription]
	parched core.Queue[*leaser]
}

func (m *Machine) peer(r *mail.Request) *peer {
	key := peerKey{r.Reactor, r.Conn}
	p := m.peers[key]
	if p == nil {
		p = m.pools.peer()
		p.key = key
		m.peers[key] = p
	}
	return p
}

// releasePeer forgets a peer for which nothing is held any more.
func (m *Machine) releasePeer(p *peer) {
	if m.peers[p.key] == p && len(p.fetches) == 0 && len(p.subscriptions) == 0 && len(p.leasers) == 0 && p.parcelBytes == 0 {
		core.Assert(p.starved.Len() == 0 && p.hungry.Len() == 0 && p.parched.Len() == 0, "nothing waits for memory that is all there")
		delete(m.peers, p.key)
		m.pools.putPeer(p)
	}
}

// disconnect forgets what a connection waits for. Parcels that are out come back
// by themselves.
func (m *Machine) disconnect(r *mail.Request) {
	p := m.peers[peerKey{r.Reactor, r.Conn}]
	if p == nil {
		return
	}
	for i := len(p.fetches) - 1; i >= 0; i-- {
		p.fetches[i].cancel()
	}
	for len(p.subscriptions) > 0 {
		p.subscriptions[len(p.subscriptions)-1].end()
	}
	for len(p.leasers) > 0 {
		p.leasers[len(p.leasers)-1].end()
	}
	m.releasePeer(p)
}

func (p *peer) addFetch(f *fetch) {
	f.peer, f.place = p, len(p.fetches)
	p.fetches = append(p.fetches, f)
}

func (p *peer) removeFetch(f *fetch) {
	last := len(p.fetches) - 1
	p.fetches[f.place] = p.fetches[last]
	p.fetches[f.place].place = f.place
	p.fetches[last] = nil
	p.fetches = p.fetches[:last]
}
