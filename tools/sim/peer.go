package main

import (
	"github.com/pulsemq/pulsemq/proto"
)

// peer is a client's connection as the protocol sees it: HELLO, requests and their answers, windows, keepalive. It
// holds the broker to exactly one answer for each request.
type peer struct {
	world *world
	node  *node
	wire  *wire
	name  string

	in       []byte
	open     bool // HELLO was answered
	nextID   uint64
	asked    []*asked          // unanswered, in the order they were sent
	byID     map[uint64]*asked // the same
	silent   map[uint64]bool   // requests that have no answer unless they are refused
	window   int64
	requests int
	bytes    int64 // unanswered payload
	limits   proto.Limits

	// ready is called when the connection serves, gone when it is lost; unanswered requests were told before.
	ready func()
	gone  func()
	// pushed takes DELIVER, leased LEASED.
	pushed func(id uint64, m *proto.DeliverPush)
	leased func(id uint64, m *proto.LeasedPush)
	closed bool // for good
}

// asked is a request under way. done is called for each frame of its answer, or with an error; with neither when the
// connection was lost.
type asked struct {
	id      uint64
	command proto.Command
	bytes   int64
	sentAt  int64
	done    func(m proto.Message, e *proto.Error)
}

func (w *world) peer(name string, n *node) *peer {
	p := &peer{world: w, node: n, name: name, byID: map[uint64]*asked{}, silent: map[uint64]bool{}}
	w.peers = append(w.peers, p)
	return p
}

// connect opens a connection after a while.
func (p *peer) connect(wait int64) {
	p.world.after(wait, func() {
		if !p.closed {
			p.wire = p.world.dial(p.node, p)
		}
	})
}

func (p *peer) connected() {
	p.in, p.open, p.bytes = nil, false, 0
	p.window, p.requests = 4096, 8
	p.ask(&proto.HelloRequest{Magic: proto.Magic, ClientName: p.name}, func(m proto.Message, e *proto.Error) {
		if m, ok := m.(*proto.HelloResponse); ok {
			p.open = true
			p.window, p.requests, p.limits = int64(m.WindowBytes), int(m.WindowRequests), m.Limits
			if p.ready != nil {
				p.ready()
			}
		}
	})
}

// room says whether a request of so many bytes fits the window.
func (p *peer) room(bytes int) bool {
	return p.open && p.wire != nil && len(p.asked) < p.requests && (p.bytes == 0 || p.bytes+int64(bytes) <= p.window)
}

// ask sends a request. It returns its id.
func (p *peer) ask(m proto.Message, done func(proto.Message, *proto.Error)) uint64 {
	p.nextID++
	a := &asked{id: p.nextID, command: m.Command(), bytes: int64(m.Size()), sentAt: p.world.clock.monotonic, done: done}
	p.asked = append(p.asked, a)
	p.byID[a.id] = a
	p.bytes += a.bytes
	p.world.counts.requests++
	p.wire.send(proto.AppendFrame(nil, a.id, m))
	return a.id
}

// tell sends a request that has no answer.
func (p *peer) tell(m proto.Message) {
	p.nextID++
	p.silent[p.nextID] = true
	p.wire.send(proto.AppendFrame(nil, p.nextID, m))
}

func (p *peer) settle(a *asked) {
	delete(p.byID, a.id)
	p.bytes -= a.bytes
	for i := range p.asked {
		if p.asked[i] == a {
			p.asked = append(p.asked[:i], p.asked[i+1:]...)
			return
		}
	}
}

func (p *peer) received(b []byte) {
	p.in = append(p.in, b...)
	for p.wire != nil {
		h, ok, err := proto.DecodeFrameHeader(p.in, 256<<20)
		if err != nil {
			p.world.fail("%s: the node sent a broken frame: %v", p.name, err)
			return
		}
		if !ok || len(p.in) < h.FrameBytes() {
			return
		}
		payload := p.in[proto.FrameHeaderBytes:h.FrameBytes()]
		p.in = p.in[h.FrameBytes():]
		p.frame(h, payload)
		if p.world.failed != nil {
			return
		}
	}
}

func (p *peer) frame(h proto.FrameHeader, payload []byte) {
	w := p.world
	if h.RequestID&proto.ServerIDBit != 0 && h.Command != proto.CommandDeliver {
		switch h.Command {
		case proto.CommandPing:
			var m proto.PingRequest
			if p.decode(h, payload, &m) {
				p.wire.send(proto.AppendFrame(nil, h.RequestID, &proto.PingResponse{Opaque: m.Opaque}))
			}
		case proto.CommandCredit:
			var m proto.CreditPush
			if p.decode(h, payload, &m) {
				p.window, p.requests = int64(m.WindowBytes), int(m.WindowRequests)
			}
		default:
			w.fail("%s: the node asks %v", p.name, h.Command)
		}
		return
	}
	switch h.Command {
	case proto.CommandDeliver:
		var m proto.DeliverPush
		if p.decode(h, payload, &m) && p.pushed != nil {
			p.pushed(h.RequestID, &m)
		}
		return
	case proto.CommandLeased:
		var m proto.LeasedPush
		if p.decode(h, payload, &m) && p.leased != nil {
			p.leased(h.RequestID, &m)
		}
		return
	case proto.CommandError:
		m := new(proto.Error)
		if !p.decode(h, payload, m) {
			return
		}
		w.sawError(p, m)
		if h.RequestID == 0 {
			return // about the connection, which ends
		}
		if p.silent[h.RequestID] {
			delete(p.silent, h.RequestID)
			return
		}
		if a := p.byID[h.RequestID]; a != nil {
			p.settle(a)
			a.done(nil, m)
			return
		}
		w.fail("%s: an error for request %d, which is not under way: %v", p.name, h.RequestID, m)
		return
	}
	a := p.byID[h.RequestID]
	if a == nil || a.command != h.Command || !h.Answer {
		w.fail("%s: an answer to %v %d, which is not under way", p.name, h.Command, h.RequestID)
		return
	}
	m := proto.NewResponse(h.Command)
	if !p.decode(h, payload, m) {
		return
	}
	w.counts.answers++
	if m, ok := m.(*proto.FetchResponse); !ok || !m.More {
		p.settle(a)
	}
	a.done(m, nil)
}

func (p *peer) decode(h proto.FrameHeader, payload []byte, m proto.Message) bool {
	if err := m.Decode(payload); err != nil {
		p.world.fail("%s: %v of the node does not decode: %v", p.name, h.Command, err)
		return false
	}
	return true
}

func (p *peer) lost() {
	p.wire, p.open, p.in = nil, false, nil
	waiting := p.asked
	p.asked, p.bytes = nil, 0
	clear(p.byID)
	clear(p.silent)
	for _, a := range waiting {
		a.done(nil, nil)
	}
	if p.gone != nil {
		p.gone()
	}
	if !p.closed {
		p.connect(p.world.between(1e6, 300e6))
	}
}

// close ends the peer for good.
func (p *peer) close() {
	p.closed = true
	if p.wire != nil {
		wire := p.wire
		wire.hangUp(false)
		p.lost()
	}
}
