package fakebroker

import (
	"net"
	"sync"

	"github.com/pulsemq/pulsemq/proto"
)

// Node is one broker: a listener and its connections.
type Node struct {
	ID      uint32
	cluster *Cluster

	mu       sync.Mutex
	listener net.Listener
	address  string
	sessions map[*session]struct{}
	running  sync.WaitGroup
	stalled  chan struct{} // not nil while the node does nothing
}

// Start listens. The node keeps its number and the cluster's state.
func (n *Node) Start(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.listener, n.address = l, l.Addr().String()
	n.mu.Unlock()
	n.cluster.mu.Lock()
	n.cluster.epoch++
	n.cluster.mu.Unlock()
	n.running.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s := newSession(n, nc)
			n.mu.Lock()
			dead := n.listener != l
			if !dead {
				n.sessions[s] = struct{}{}
				n.running.Go(s.run)
			}
			n.mu.Unlock()
			if dead {
				nc.Close()
			}
		}
	})
	return nil
}

// Stop closes the listener and every connection and waits until nothing runs. Records stay.
func (n *Node) Stop() {
	n.Resume()
	n.mu.Lock()
	if n.listener != nil {
		n.listener.Close()
		n.listener = nil
	}
	n.mu.Unlock()
	n.DropAll()
	n.running.Wait()
}

// Move stops the node and starts it at another address.
func (n *Node) Move(address string) error {
	n.Stop()
	return n.Start(address)
}

// DropAll ends every connection.
func (n *Node) DropAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.sessions {
		s.close()
	}
}

// Stall makes the node do nothing, as if it were stopped by a signal: the kernel still takes bytes, nobody answers.
func (n *Node) Stall() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stalled == nil {
		n.stalled = make(chan struct{})
	}
}

// Resume ends Stall.
func (n *Node) Resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stalled != nil {
		close(n.stalled)
		n.stalled = nil
	}
}

// waitStall blocks while the node is stalled.
func (n *Node) waitStall() {
	n.mu.Lock()
	stalled := n.stalled
	n.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
}

// Address is where the node listens, or did last.
func (n *Node) Address() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.address
}

// Sessions is the number of connections.
func (n *Node) Sessions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.sessions)
}

// Credit grants every connection another window.
func (n *Node) Credit(bytes uint64, requests uint32) {
	for _, s := range n.open() {
		s.credit(bytes, requests)
	}
}

// Ping asks the client of every connection for a sign of life.
func (n *Node) Ping() {
	for _, s := range n.open() {
		s.send(proto.ServerIDBit|2, 0, &proto.PingRequest{Opaque: 7})
	}
}

// open are the connections there are now.
func (n *Node) open() []*session {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*session
	for s := range n.sessions {
		all = append(all, s)
	}
	return all
}
