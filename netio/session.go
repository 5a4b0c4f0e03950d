package netio

import (
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// state is how far a session has come.
type state uint8

const (
	// stateHandshake waits for HELLO.
	stateHandshake state = iota
	// stateOpen serves requests.
	stateOpen
	// stateEnding has sent its last frame. What still arrives is thrown away until the
	// client closes or the linger time is over: closing at once with unread bytes
	// would reset the connection and could take the last frame from the client.
	stateEnding
	// stateClosed has no connection any more.
	stateClosed
)

// lingerTime is how long an ending session waits for the client to close.
const lingerTime = int64(2e9)

// Session is the protocol on one connection: bytes in, requests to shards,
// answers out. All calls come from its reactor's thread.
type Session struct {
	reactor  *Reactor
	conn     core.Conn
	listener *Listener
	ref      mail.ConnRef

	// Principal is on whose behalf requests are made. A login replaces it.
	Principal *Principal

	state      state
	halfClosed bool // the client has been told that no more bytes come
	pinged     bool // a keepalive PING is out
	dirty      bool // in reactor.dirty
	blocked    bool // in reactor.blocked
	producing  bool // has produced, for the metrics
	consuming  bool // has fetched or subscribed

	opened int64 // monotonic
	heard  int64 // when the last byte arrived
	ended  int64 // when stateEnding began

	in  parser
	out sender

	pendings pendings
	window   sessionWindow

	scatters  map[uint32]*scatter // under way, by their token
	scatterID uint32

	// creating are requests whose topics are being created first; nil mostly.
	creating map[uint64]proto.Message
	// listing are LIST_GROUPS that a coordinator has; nil mostly.
	listing map[uint64]groupPage

	subscriptions map[uint64]*subscription
	leasings      []*leasing
	leaseSerial   uint64
	parked        core.Queue[parkedFetch] // fetches that wait until the client has read
	told          map[uint64]struct{}     // fetches that a shutdown has refused and their shard has not answered
	touched       uint64                  // bit per shard that has been sent something about this connection

	serverID uint64 // last request id that the broker made on this connection
}

// sessionWindow is what the client may have unanswered.
//
// A window that shrinks is enforced only once the client is known to have read
// the CREDIT that says so: a PING follows it, and enforced falls with its answer.
type sessionWindow struct {
	bytes    int64 // unanswered payload bytes
	granted  int64 // as the client was last told
	enforced int64 // >= granted; what exceeding closes, and what the budget counts
	barrier  uint64
	shrunk   int64 // when that PING was sent
}

// Receive takes the bytes that have arrived. They may begin and end anywhere.
func (s *Session) Receive(b []byte) {
	s.reactor.begin()
	s.heard = s.reactor.now
	s.pinged = false
	s.reactor.stats.BytesReceived += uint64(len(b))
	s.parse(b)
	s.reactor.endPacks()
}

// Lost is called once when the connection is gone, whoever closed it.
func (s *Session) Lost() {
	if s.state == stateClosed {
		return
	}
	s.state = stateClosed
	r := s.reactor
	s.dropInput()
	s.dropOutput()
	r.windows.giveUp(s.window.enforced)
	s.window = sessionWindow{}
	for shard := range r.links {
		if s.touched&(1<<shard) != 0 {
			r.must(core.ShardID(shard), &mail.Request{Kind: mail.RequestDisconnect, Conn: s.ref})
		}
	}
	r.stats.Subscriptions -= int64(len(s.subscriptions) + len(s.leasings))
	if s.producing {
		r.stats.Producers--
	}
	if s.consuming {
		r.stats.Consumers--
	}
	s.dropScatters()
	s.subscriptions, s.leasings, s.creating, s.listing = nil, nil, nil, nil
	s.pendings = pendings{}
	r.release(s)
}

// end says a last word about the whole connection, after the answers that are
// ready, and closes it.
func (s *Session) end(id uint64, e *proto.Error) {
	if s.state >= stateEnding {
		return
	}
	s.reactor.stats.fail(e.Code)
	s.dropInput()
	s.dropData()
	s.push(id, e)
	s.state = stateEnding
	s.ended = s.reactor.now
}

// refuse answers a request that is not passed on.
func (s *Session) refuse(id uint64, e *proto.Error) {
	s.settle(id)
	s.fail(id, e)
}

// fail sends an error for a request that is already settled.
func (s *Session) fail(id uint64, e *proto.Error) {
	s.reactor.stats.fail(e.Code)
	s.push(id, e)
}

// settle takes a request off the unanswered ones. It returns false when it was
// not among them: nobody waits for it any more.
func (s *Session) settle(id uint64) bool {
	entry, ok := s.pendings.remove(id)
	if ok {
		s.window.bytes -= int64(entry.bytes)
		s.reactor.stats.answered(entry.command, s.reactor.now-entry.received)
	}
	return ok
}

// send passes a request to the owner of its partition.
func (s *Session) send(shard core.ShardID, request *mail.Request) bool {
	request.Conn = s.ref
	if !s.reactor.send(shard, request) {
		return false
	}
	s.touched |= 1 << shard
	return true
}

// nextServerID names a request of the broker.
func (s *Session) nextServerID() uint64 {
	s.serverID++
	return proto.ServerIDBit | s.serverID
}
