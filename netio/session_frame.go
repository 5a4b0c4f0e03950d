package netio

import (
	"errors"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// phase is which part of a frame the parser stands in.
type phase uint8

const (
	phaseHeader phase = iota
	// phaseBody gathers a payload that is decoded as a whole.
	phaseBody
	// phaseProduce gathers the fields of PRODUCE before the batch.
	phaseProduce
	// phaseBatch copies a batch into its slab.
	phaseBatch
	// phaseSkip throws the rest of a payload away.
	phaseSkip
)

// lengthMax bounds the length field of a frame: the header's 10 counted bytes and the payload.
const lengthMax = core.FrameBytesMax

// parser takes frames out of bytes that come in pieces of any size. What it does
// depends on the bytes alone, never on where the pieces begin.
//
// Invariant: in phaseHeader left is 0 and gathered holds a part of a header; in
// the others left is how many payload bytes have not been seen.
type parser struct {
	phase   phase
	header  proto.FrameHeader
	left    int
	begun   int64 // monotonic, when the first byte of the frame came
	partial [proto.FrameHeaderBytes]byte
	held    int // bytes in partial
	body    []byte

	batch batchInput
}

// parse consumes b.
func (s *Session) parse(b []byte) {
	for len(b) > 0 && s.state < stateEnding {
		switch s.in.phase {
		case phaseHeader:
			b = s.parseHeader(b)
		case phaseBody:
			b = s.parseBody(b)
		case phaseProduce:
			b = s.parseProduce(b)
		case phaseBatch:
			n := min(len(b), s.in.left)
			s.ingest(b[:n])
			b = b[n:]
		case phaseSkip:
			n := min(len(b), s.in.left)
			s.in.left -= n
			b = b[n:]
			if s.in.left == 0 {
				s.in.phase = phaseHeader
			}
		}
	}
}

// parseHeader reads a frame's header, which is in b as a whole nearly always.
func (s *Session) parseHeader(b []byte) []byte {
	in := &s.in
	at := b
	if in.held == 0 {
		in.begun = s.reactor.now
	}
	if in.held > 0 || len(b) < proto.FrameHeaderBytes {
		n := copy(in.partial[in.held:], b)
		in.held += n
		b = b[n:]
		at = in.partial[:in.held]
	} else {
		b = b[proto.FrameHeaderBytes:]
	}
	limit := uint32(lengthMax)
	if s.state == stateHandshake {
		limit = core.HandshakeFrameBytesMax
	}
	header, ok, err := proto.DecodeFrameHeader(at, limit)
	if err != nil {
		var broken *proto.FrameError
		e := proto.AsError(err)
		if errors.As(err, &broken) && broken.Code == proto.CodeFrameTooLarge {
			e = &proto.Error{Code: broken.Code, Text: err.Error(), Limit: uint64(limit)}
		}
		s.end(0, e)
		return nil
	}
	if !ok {
		return b
	}
	in.held = 0
	in.header = header
	in.left = header.PayloadBytes()
	s.beginFrame()
	// A frame without a payload is complete with its header.
	if in.left == 0 && s.state < stateEnding {
		switch in.phase {
		case phaseBody:
			s.parseBody(nil)
		case phaseProduce:
			s.parseProduce(nil)
		default:
			in.phase = phaseHeader
		}
	}
	return b
}

// skip throws the rest of the frame away, without losing the place of the next.
func (s *Session) skip() {
	s.in.phase = phaseSkip
	if s.in.left == 0 {
		s.in.phase = phaseHeader
	}
}

// rule is what the broker holds requests of a command to.
type rule struct {
	known    bool
	versions proto.VersionRange
	window   bool // counts against the window
}

// rules by command number. They are derived from proto, so that a command cannot
// be known there and not here.
var rules = func() (t [128]rule) {
	for _, info := range proto.Commands() {
		if !info.Request {
			continue
		}
		window := true
		switch info.Command {
		case proto.CommandHello, proto.CommandPing, proto.CommandCredit:
			window = false
		}
		t[info.Command] = rule{
			known:    true,
			versions: proto.VersionRange{VersionMin: info.VersionMin, VersionMax: info.VersionMax},
			window:   window,
		}
	}
	return t
}()

// beginFrame decides from the header what becomes of a frame.
func (s *Session) beginFrame() {
	h := &s.in.header
	r := s.reactor
	r.stats.FramesReceived++
	s.in.phase = phaseBody
	if s.state == stateHandshake && (h.Command != proto.CommandHello || h.Answer) {
		s.end(h.RequestID, proto.CodeHandshakeRequired.Errorf("%v came before HELLO; send HELLO first", h.Command))
		return
	}
	if h.Answer {
		s.beginAnswer(h)
		return
	}
	rule := &rules[h.Command&0x7f]
	switch {
	case !rule.known:
		s.fail(h.RequestID, proto.CodeUnknownCommand.Errorf("command %d is not served; HELLO lists those that are", uint8(h.Command)))
		s.skip()
		return
	case h.RequestID&proto.ServerIDBit != 0:
		s.fail(h.RequestID, proto.CodeInvalidRequest.Errorf("request id %d has its top bit set, which marks requests of the broker", h.RequestID))
		s.skip()
		return
	case h.Command == proto.CommandHello:
		return // answered whatever version it has
	case h.Version < rule.versions.VersionMin || h.Version > rule.versions.VersionMax:
		s.fail(h.RequestID, &proto.Error{
			Code:     proto.CodeUnsupportedVersion,
			Text:     versionText(h, rule.versions),
			Versions: &rule.versions,
		})
		s.skip()
		return
	case !rule.window:
		return
	}
	if !s.charge(h) {
		return
	}
	switch {
	case r.draining:
		s.refuse(h.RequestID, errShuttingDown)
		s.skip()
	case h.Command == proto.CommandProduce:
		s.in.phase = phaseProduce
		if !s.producing {
			s.producing = true
			r.stats.Producers++
		}
	case !s.consuming && (h.Command == proto.CommandFetch || h.Command == proto.CommandSubscribe || h.Command == proto.CommandLease):
		s.consuming = true
		r.stats.Consumers++
	}
}

// charge takes a request out of the window and remembers that it is unanswered.
func (s *Session) charge(h *proto.FrameHeader) bool {
	bytes := int64(h.PayloadBytes())
	switch {
	case s.pendings.find(h.RequestID) != nil:
		s.fail(h.RequestID, proto.CodeInvalidRequest.Errorf("request id %d is that of a request which is still unanswered", h.RequestID))
		s.skip()
		return false
	case s.pendings.count >= s.reactor.settings.WindowRequests:
		s.end(h.RequestID, &proto.Error{
			Code:  proto.CodeWindowExceeded,
			Text:  windowRequestsText(s.reactor.settings.WindowRequests),
			Limit: uint64(s.window.enforced),
		})
		return false
	case s.window.bytes > 0 && s.window.bytes+bytes > s.window.enforced:
		s.end(h.RequestID, &proto.Error{
			Code:  proto.CodeWindowExceeded,
			Text:  windowBytesText(bytes, s.window.bytes, s.window.enforced),
			Limit: uint64(s.window.enforced),
		})
		return false
	}
	s.window.bytes += bytes
	s.pendings.add(pending{id: h.RequestID, bytes: uint32(bytes), command: h.Command, received: s.reactor.now})
	return true
}

// beginAnswer takes an answer to a request of the broker: only PING has one.
func (s *Session) beginAnswer(h *proto.FrameHeader) {
	if h.Command != proto.CommandPing || h.RequestID&proto.ServerIDBit == 0 {
		s.fail(h.RequestID, proto.CodeMalformedRequest.Errorf("an answer to %v: the broker has not asked", h.Command))
		s.skip()
		return
	}
	if s.window.barrier != 0 && h.RequestID == s.window.barrier {
		s.enforceWindow()
	}
	s.skip()
}

// parseBody gathers a payload and handles it once it is whole.
func (s *Session) parseBody(b []byte) []byte {
	in := &s.in
	n := min(len(b), in.left)
	if len(in.body) == 0 && n == in.left { // the whole payload lies in b
		in.left = 0
		in.phase = phaseHeader
		s.handle(b[:n])
		return b[n:]
	}
	if in.body == nil {
		in.body = s.reactor.buffer()
	}
	in.body = append(in.body, b[:n]...) // grows with what has arrived, not with what was announced
	in.left -= n
	if in.left == 0 {
		body := in.body
		in.body = nil
		in.phase = phaseHeader
		s.handle(body)
		s.reactor.recycle(body)
	}
	return b[n:]
}

// dropInput gives back what an unfinished frame holds.
func (s *Session) dropInput() {
	in := &s.in
	if in.body != nil {
		s.reactor.recycle(in.body)
		in.body = nil
	}
	s.dropBatch()
	in.phase, in.left, in.held = phaseHeader, 0, 0
}

// handle serves a request whose payload is whole. p is valid during the call only.
func (s *Session) handle(p []byte) {
	h := s.in.header
	switch h.Command {
	case proto.CommandHello:
		s.hello(h.RequestID, p)
	case proto.CommandPing:
		s.ping(h.RequestID, p)
	case proto.CommandCredit:
		s.credit(h.RequestID, p)
	case proto.CommandMetadata:
		s.metadata(h.RequestID, p)
	case proto.CommandFetch:
		s.fetch(h.RequestID, p)
	case proto.CommandListOffsets:
		s.listOffsets(h.RequestID, p)
	case proto.CommandDescribeTopic:
		s.describeTopic(h.RequestID, p)
	case proto.CommandVerifyTopic:
		s.verifyTopic(h.RequestID, p)
	case proto.CommandSubscribe:
		s.subscribe(h.RequestID, p)
	case proto.CommandDeleteRecords:
		s.deleteRecords(h.RequestID, p)
	case proto.CommandCommitOffset:
		s.commitOffset(h.RequestID, p)
	case proto.CommandFetchOffsets:
		s.fetchOffsets(h.RequestID, p)
	case proto.CommandJoinGroup, proto.CommandHeartbeat, proto.CommandLeaveGroup, proto.CommandFenceGroup, proto.CommandListGroups,
		proto.CommandDescribeGroup, proto.CommandDeleteGroup:
		s.groupCommand(h.RequestID, h.Command, p)
	case proto.CommandLease:
		s.lease(h.RequestID, p)
	case proto.CommandSettle:
		s.settleLeases(h.RequestID, p)
	case proto.CommandDescribeQueue:
		s.describeQueue(h.RequestID, p)
	case proto.CommandCreateTopic, proto.CommandDeleteTopic, proto.CommandAlterTopic, proto.CommandInitProducer:
		s.admin(h.RequestID, h.Command, p)
	default:
		core.Assert(false, "every command with a rule has a handler")
	}
}
