package netio

import (
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// tick looks after deadlines.
func (s *Session) tick() {
	r := s.reactor
	settings := &r.settings
	silence := r.now - s.heard
	switch s.state {
	case stateHandshake:
		if r.now-s.opened >= settings.HandshakeTimeout {
			s.end(0, proto.CodeHandshakeRequired.Errorf("no HELLO within %v", time.Duration(settings.HandshakeTimeout)))
		}
	case stateOpen:
		switch {
		case s.midFrame() && silence >= settings.HandshakeTimeout:
			// An unfinished request holds memory that others could use.
			s.end(0, proto.CodeConnectionIdle.Errorf("a request has begun and nothing of it came for %v", time.Duration(silence)))
		case s.midFrame() && r.now-s.in.begun >= s.frameTime():
			// One that sends a byte now and then is never silent, and holds as much.
			s.end(0, proto.CodeConnectionIdle.Errorf("a request of %d bytes has not come whole in %v: %d bytes a second are the least",
				s.frameBytes(), time.Duration(s.frameTime()), frameBytesPerSecondMin))
		case silence >= settings.IdleTimeout:
			s.end(0, proto.CodeConnectionIdle.Errorf("nothing was received for %v", time.Duration(silence)))
		case silence >= settings.Keepalive && !s.pinged && !s.midFrame():
			s.pinged = true
			r.encode.ping = proto.PingRequest{Opaque: uint64(r.now)}
			s.push(s.nextServerID(), &r.encode.ping)
		}
		if s.state == stateOpen && s.blocked {
			s.tickBlocked()
		}
		if silence >= restTime {
			s.rest()
		}
	case stateEnding:
		s.halfClose()
		if r.now-s.ended >= lingerTime {
			s.conn.Close()
		}
	}
}

// paused moves the deadlines by the time for which nobody looked at the socket:
// what the client sent meanwhile lies there unread.
func (s *Session) paused(time int64) {
	s.opened += time
	s.heard += time
	s.in.begun += time
	s.out.stuckSince += time
	s.window.shrunk += time
}

// Paused tells the reactor that it stood still for some nanoseconds, as in SIGSTOP or
// while the machine slept. Without it the next tick would end every connection that
// was in the middle of a request.
func (r *Reactor) Paused(time int64) {
	for i := range r.slots {
		if s := r.slots[i].session; s != nil {
			s.paused(time)
		}
	}
}

// restTime is the silence after which a session gives up what a burst needed.
const restTime = int64(time.Second)

// rest makes a quiet session small: most connections are quiet most of the time.
func (s *Session) rest() {
	s.pendings.rest()
	s.out.data.Rest()
	s.parked.Rest()
	for _, subscription := range s.subscriptions {
		subscription.held.Rest()
	}
}

// midFrame says whether a frame has begun and is not whole.
func (s *Session) midFrame() bool { return s.in.phase != phaseHeader || s.in.held > 0 }

// frameBytesPerSecondMin is how fast a request has to come at the least, on average.
const frameBytesPerSecondMin = 4 << 10

// frameBytes is how long the request is that has begun, as far as its header has come.
func (s *Session) frameBytes() int64 {
	if s.in.phase == phaseHeader {
		return proto.FrameHeaderBytes
	}
	return proto.FrameHeaderBytes + int64(s.in.header.PayloadBytes())
}

// frameTime is how long the request that has begun may take to come whole.
func (s *Session) frameTime() int64 {
	return s.reactor.settings.HandshakeTimeout + s.frameBytes()*int64(time.Second)/frameBytesPerSecondMin
}

// tickBlocked ends a connection whose client takes nothing of what it is sent.
func (s *Session) tickBlocked() {
	r := s.reactor
	buffered := s.conn.Buffered()
	if taken := s.out.written - int64(buffered); taken > s.out.taken || buffered == 0 {
		s.out.taken = taken
		s.out.stuckSince = r.now
		return
	}
	if r.now-s.out.stuckSince >= r.settings.SlowReaderTimeout {
		s.endSlow(buffered)
	}
}

func (s *Session) endSlow(buffered int) {
	r := s.reactor
	s.end(0, &proto.Error{
		Code:  proto.CodeSlowConsumer,
		Text:  slowConsumerText(buffered+s.out.dataBytes, r.settings.SlowReaderTimeout),
		Limit: uint64(r.settings.SendBufferMax),
	})
}

// rebalance moves windows towards what every connection could have: new ones
// find room because the others give some back.
func (r *Reactor) rebalance() {
	scarce := r.windows.scarce()
	fair := r.windows.fair(r.settings.WindowBytes)
	for i := range r.slots {
		s := r.slots[i].session
		if s == nil || s.state != stateOpen {
			continue
		}
		w := &s.window
		if w.barrier != 0 {
			// One that never says that it has read of its smaller window must not keep the
			// larger one, or a few of its kind shut everybody else out.
			if r.now-w.shrunk >= r.settings.HandshakeTimeout {
				s.enforceWindow()
			}
			continue
		}
		switch {
		case scarce && unfair(w.granted, fair):
			// The client may have sent under the larger window what has not arrived yet.
			// A PING behind the CREDIT says when it has read it.
			w.granted = fair
			s.pushWindow()
			w.barrier, w.shrunk = s.nextServerID(), r.now
			r.encode.ping = proto.PingRequest{}
			s.push(w.barrier, &r.encode.ping)
		case !scarce && fair >= 2*w.granted:
			r.windows.change(w.enforced, fair)
			w.granted, w.enforced = fair, fair
			s.pushWindow()
			scarce = r.windows.scarce()
		}
	}
}

// pushWindow tells the client its window.
func (s *Session) pushWindow() {
	r := s.reactor
	r.encode.creditPush = proto.CreditPush{
		WindowBytes:    uint64(s.window.granted),
		WindowRequests: uint32(r.settings.WindowRequests),
	}
	s.push(s.nextServerID(), &r.encode.creditPush)
}

// enforceWindow makes a smaller window binding once the client has read of it.
func (s *Session) enforceWindow() {
	s.window.barrier = 0
	s.reactor.windows.change(s.window.enforced, s.window.granted)
	s.window.enforced = s.window.granted
}
