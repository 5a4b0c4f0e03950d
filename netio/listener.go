package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// acceptPauseMax is the longest pause after a failed accept: usually the process
	// has no file descriptors left, and has them again when a connection closes.
	acceptPauseMax = time.Second

	// farewellsMax bounds the refused connections that are told why at one time;
	// beyond it they are closed without a word.
	farewellsMax = 64
	// farewellTime bounds each.
	farewellTime = time.Second
)

// listen opens the listeners: one for an address, one for each address of a name.
// The wildcard of IPv6, and no host at all, serve IPv4 as well.
func (s *Server) listen() error {
	hosts, err := listenHosts(s.network.Host)
	if err != nil {
		return err
	}
	port := s.network.Port
	for _, host := range hosts {
		address := net.JoinHostPort(host, strconv.Itoa(port))
		l, err := net.Listen("tcp", address)
		if err != nil {
			for _, open := range s.listeners {
				open.Close()
			}
			return fmt.Errorf("listen for clients on %s (network.host, network.port): %w", address, err)
		}
		s.listeners = append(s.listeners, l.(*net.TCPListener))
		port = l.Addr().(*net.TCPAddr).Port // port 0 takes the same one for every address
	}
	s.listener = Listener{AdvertisedHost: s.network.AdvertisedHost, AdvertisedPort: s.network.AdvertisedPort}
	if s.listener.AdvertisedPort == 0 {
		s.listener.AdvertisedPort = port
	}
	return nil
}

// listenHosts are the addresses of a host.
func listenHosts(host string) ([]string, error) {
	if host == "" {
		return []string{""}, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}, nil
	}
	hosts, err := net.DefaultResolver.LookupHost(context.Background(), host)
	if err != nil {
		return nil, fmt.Errorf("find the addresses of %s (network.host): %w", core.Quote(host), err)
	}
	return hosts, nil
}

// accept takes connections until the listener is closed.
func (s *Server) accept(l *net.TCPListener) {
	defer s.accepting.Done()
	pause := time.Duration(0)
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			s.acceptFailures.Add(1)
			if pause == 0 {
				s.log.Warn("accepting connections fails", "address", l.Addr().String(), "error", err)
			}
			pause = min(max(2*pause, 5*time.Millisecond), acceptPauseMax)
			select {
			case <-s.stopping:
				return
			case <-time.After(pause):
			}
			continue
		}
		pause = 0
		s.admit(conn)
	}
}

// admit holds a new connection to the limits and gives it to the loop with the
// fewest connections.
func (s *Server) admit(conn *net.TCPConn) {
	remote := conn.RemoteAddr().(*net.TCPAddr)
	key := limitKeyOf(remote)
	if refusal := s.limits.enter(key); refusal != nil {
		s.farewell(conn, refusal)
		return
	}
	at := s.loops[0]
	for _, l := range s.loops[1:] {
		if l.connections.Load() < at.connections.Load() {
			at = l
		}
	}
	at.connections.Add(1)
	c := &gnetConn{loop: at, listener: &s.listener, remote: remote.String(), address: key}
	go func() { // gnet answers after the loop has taken it
		if err := s.enroll(conn, c); err != nil {
			conn.Close()
			at.connections.Add(-1)
			s.limits.leave(key)
			s.log.Warn("a connection was lost before it was served", "remote", c.remote, "error", err)
		}
	}()
}

// farewell tells a refused connection why, without waiting for it here.
func (s *Server) farewell(conn *net.TCPConn, refusal *proto.Error) {
	if !s.limits.beginFarewell() {
		conn.Close()
		return
	}
	go func() {
		defer s.limits.endFarewell()
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(farewellTime))
		if _, err := conn.Write(proto.AppendFrame(nil, 0, refusal)); err != nil {
			return
		}
		// Closing with unread bytes would reset the connection before the client has
		// read the reason.
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, core.HandshakeFrameBytesMax))
	}()
}

// limitKey is what connections are counted by: an IPv4 address, or the network
// of an IPv6 one, because a host has a whole network of those.
type limitKey = netip.Prefix

func limitKeyOf(a *net.TCPAddr) limitKey {
	ip, _ := netip.AddrFromSlice(a.IP)
	ip = ip.Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// connectionLimits counts connections. Its lock is taken when one comes or goes.
type connectionLimits struct {
	mu        sync.Mutex
	max       int
	perIPMax  int
	count     int
	perIP     map[limitKey]int
	refused   uint64
	farewells int
}

func newConnectionLimits(most, perIP int) *connectionLimits {
	return &connectionLimits{max: most, perIPMax: perIP, perIP: make(map[limitKey]int)}
}

// enter counts a connection, or says why it is one too many.
func (c *connectionLimits) enter(key limitKey) *proto.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.count >= c.max:
		c.refused++
		return tooManyConnections(c.max, "network.max-connections")
	case c.perIP[key] >= c.perIPMax:
		c.refused++
		return tooManyConnections(c.perIPMax, "network.max-connections-per-ip, from one address")
	}
	c.count++
	c.perIP[key]++
	return nil
}

func (c *connectionLimits) leave(key limitKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count--
	if c.perIP[key]--; c.perIP[key] == 0 {
		delete(c.perIP, key)
	}
}

func (c *connectionLimits) beginFarewell() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.farewells >= farewellsMax {
		return false
	}
	c.farewells++
	return true
}

func (c *connectionLimits) endFarewell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.farewells--
}

// Refused is how many connections were one too many.
func (c *connectionLimits) Refused() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}
