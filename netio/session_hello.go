package netio

import (
	"fmt"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

// clientTextBytesMax bounds the client's name and version.
const clientTextBytesMax = 255

// hello introduces the broker and grants a window.
func (s *Session) hello(id uint64, p []byte) {
	var m proto.HelloRequest
	if err := m.Decode(p); err != nil {
		s.endHello(id, proto.AsError(err))
		return
	}
	switch {
	case m.Magic != proto.Magic:
		s.endHello(id, proto.CodeMalformedRequest.Errorf("magic %#08x: the protocol's is %#08x", m.Magic, uint32(proto.Magic)))
		return
	case len(m.ClientName) > clientTextBytesMax || len(m.ClientVersion) > clientTextBytesMax:
		s.endHello(id, proto.CodeInvalidRequest.Errorf("the client's name has %d bytes and its version %d; at most %d each are allowed",
			len(m.ClientName), len(m.ClientVersion), clientTextBytesMax))
		return
	}
	r := s.reactor
	if s.state == stateHandshake {
		if r.draining {
			s.end(id, errShuttingDown)
			return
		}
		window := r.windows.grant(r.settings.WindowBytes)
		if window == 0 {
			s.end(id, tooManyConnections(int(r.windows.holders), "the windows of those there are take all memory for requests"))
			return
		}
		s.window.granted, s.window.enforced = window, window
		s.state = stateOpen
		r.stats.Handshakes++
	}
	settings := &r.settings
	s.push(id, &proto.HelloResponse{
		Magic:         proto.Magic,
		ClusterID:     r.view.ClusterID(),
		NodeID:        uint32(settings.NodeID),
		BrokerVersion: core.Version,
		Commands:      served,
		Features:      nil,
		Limits: proto.Limits{
			FrameBytesMax:              lengthMax,
			BatchBytesMax:              uint32(settings.BatchBytesMax),
			BatchRecordsMax:            uint32(settings.BatchRecordsMax),
			FetchBytesMax:              uint32(settings.FetchBytesMax),
			FetchRecordsMax:            uint32(settings.FetchRecordsMax),
			FetchWaitMsMax:             uint32(settings.FetchWaitMax / 1e6),
			ProducerBatchesInFlightMax: core.ProducerBatchesRemembered,
			SubscriptionsMax:           subscriptionsMax,
			SubscriptionPartitionsMax:  subscriptionPartitionsMax,
		},
		KeepaliveMs:    uint32(settings.Keepalive / 1e6),
		WindowBytes:    uint64(s.window.granted),
		WindowRequests: uint32(settings.WindowRequests),
	})
}

// endHello refuses a HELLO. Nothing can follow a bad first one; a later one is an
// ordinary request.
func (s *Session) endHello(id uint64, e *proto.Error) {
	if s.state == stateHandshake || e.Code == proto.CodeMalformedRequest {
		s.end(id, e)
		return
	}
	s.fail(id, e)
}

// served lists every command with its versions.
var served = func() []proto.CommandRange {
	var list []proto.CommandRange
	for _, info := range proto.Commands() {
		list = append(list, proto.CommandRange{Command: info.Command, VersionMin: info.VersionMin, VersionMax: info.VersionMax})
	}
	return list
}()

func tooManyConnections(limit int, why string) *proto.Error {
	return &proto.Error{
		Code:  proto.CodeTooManyConnections,
		Text:  fmt.Sprintf("no connection above %d: %s", limit, why),
		Limit: uint64(limit),
	}
}

// ping answers a client's PING.
func (s *Session) ping(id uint64, p []byte) {
	m := &s.reactor.encode.ping
	if err := m.Decode(p); err != nil {
		s.fail(id, proto.AsError(err))
		return
	}
	s.reactor.encode.pong = proto.PingResponse{Opaque: m.Opaque}
	s.push(id, &s.reactor.encode.pong)
}
