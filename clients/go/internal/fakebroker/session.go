package fakebroker

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// session is one connection.
type session struct {
	node    *Node
	cluster *Cluster
	net     net.Conn
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	pushed        chan struct{} // when the last LEASED is sent; guarded by the cluster's lock
	write         sync.Mutex
	subscriptions map[uint64]*subscription // of the reader alone
}

func newSession(n *Node, nc net.Conn) *session {
	s := &session{node: n, cluster: n.cluster, net: nc, subscriptions: map[uint64]*subscription{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *session) close() {
	s.cancel()
	s.net.Close()
}

func (s *session) run() {
	defer func() {
		s.close()
		s.running.Wait()
		s.cluster.endSession(s)
		s.node.mu.Lock()
		delete(s.node.sessions, s)
		s.node.mu.Unlock()
	}()
	head := make([]byte, proto.FrameHeaderBytes)
	for {
		if _, err := io.ReadFull(s.net, head); err != nil {
			return
		}
		h, _, err := proto.DecodeFrameHeader(head, s.cluster.Limits.FrameBytesMax)
		if err != nil {
			s.send(0, 0, proto.AsError(err))
			return
		}
		payload := make([]byte, h.PayloadBytes())
		if _, err := io.ReadFull(s.net, payload); err != nil {
			return
		}
		s.node.waitStall()
		if h.Answer {
			continue // of a PING
		}
		request := proto.NewRequest(h.Command)
		if request == nil {
			s.send(h.RequestID, 0, proto.CodeUnknownCommand.Errorf("%v", h.Command))
			continue
		}
		if err := request.Decode(payload); err != nil {
			s.send(h.RequestID, 0, proto.AsError(err))
			continue
		}
		s.cluster.mu.Lock()
		s.cluster.requests[h.Command]++
		s.cluster.mu.Unlock()
		if !s.serve(h.RequestID, request) {
			return
		}
	}
}

// serve carries a request out; false ends the connection.
func (s *session) serve(id uint64, request proto.Message) bool {
	if _, ok := request.(*proto.HelloRequest); ok {
		s.send(id, 0, s.hello())
		return true
	}
	fault := s.cluster.faultFor(request)
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-s.ctx.Done():
			return false
		}
	}
	if fault.DropBefore {
		return false
	}
	if fault.Refuse != nil {
		s.send(id, 0, fault.Refuse)
		return true
	}
	if beat, ok := request.(*proto.HeartbeatRequest); ok {
		s.running.Go(func() { s.heartbeat(id, beat) })
		return true
	}
	if fetch, ok := request.(*proto.FetchRequest); ok {
		s.running.Go(func() { s.fetch(id, fetch, fault) })
		return true
	}
	answer, err := s.handle(id, request, fault)
	var refusal *proto.Error
	if errors.As(err, &refusal) {
		answer = refusal
	}
	if fault.Disown != nil {
		answer = fault.Disown
	}
	switch {
	case fault.DropAfter:
		return false
	case fault.Silent || answer == nil:
		return true
	case fault.CutAnswer > 0:
		s.send(id, fault.CutAnswer, answer)
		return false
	}
	s.send(id, 0, answer)
	return true
}

// send writes a frame, or its first cut bytes.
func (s *session) send(id uint64, cut int, m proto.Message) {
	frame := proto.AppendFrame(nil, id, m)
	if cut > 0 {
		frame = frame[:min(cut, len(frame)-1)]
	}
	s.node.waitStall()
	s.write.Lock()
	defer s.write.Unlock()
	s.net.Write(frame)
	if cut > 0 {
		s.net.Close() // what another goroutine sent behind it would be read as its rest
	}
}

func (s *session) credit(bytes uint64, requests uint32) {
	s.send(proto.ServerIDBit|1, 0, &proto.CreditPush{WindowBytes: bytes, WindowRequests: requests})
}

func (s *session) hello() *proto.HelloResponse {
	c := s.cluster
	return &proto.HelloResponse{Magic: proto.Magic, ClusterID: c.id, NodeID: s.node.ID, BrokerVersion: "fake",
		Commands: c.Commands, Limits: c.Limits, KeepaliveMs: c.KeepaliveMs, WindowBytes: c.WindowBytes, WindowRequests: c.WindowRequests}
}
