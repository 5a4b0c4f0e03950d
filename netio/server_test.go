package netio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/mail"
)

func TestServerProducesAndFetches(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			config := testConfig(t)
			config.Network.Host = host
			config.Network.AdvertisedHost = host
			c := newCluster(t, config, 2, 2)
			cl := c.connect(t)
			m := decode(t, []frame{cl.ask(&proto.MetadataRequest{})}, &proto.MetadataResponse{})
			if len(m.Topics) != 2 || len(m.Brokers) != 1 || m.Brokers[0].Host != host {
				t.Fatalf("metadata: %+v", m)
			}
			if port := c.server.Addresses()[0].(*net.TCPAddr).Port; int(m.Brokers[0].Port) != port {
				t.Fatalf("advertised port %d, listening on %d", m.Brokers[0].Port, port)
			}
			for partition := range uint32(8) {
				small, large := testBatch(t, 3, 100), testBatch(t, 2, 300<<10)
				for i, batch := range [][]byte{small, large} {
					p := decode(t, []frame{cl.ask(produce(partition, batch))}, &proto.ProduceResponse{})
					if p.BaseOffset != int64(3*i) || p.Durability != proto.DurabilitySync {
						t.Fatalf("produce %d: %+v", i, p)
					}
				}
				got := decode(t, []frame{cl.ask(fetch(partition, 0))}, &proto.FetchResponse{})
				first, rest, err := proto.NextBatch(got.Batches)
				if err != nil {
					t.Fatal(err)
				}
				second, err := proto.ParseBatch(rest)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(first[8:], small[8:]) || !bytes.Equal(second[8:], large[8:]) {
					t.Fatal("the batches came back changed")
				}
			}
		})
	}
}

// The reason reaches a client that has sent more than the broker read.
func TestServerSaysWhyItCloses(t *testing.T) {
	c := newCluster(t, testConfig(t), 1, 1)
	cl := c.dial(t)
	go cl.conn.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 50_000))
	wantError(t, cl.wantClosed(), 0, proto.CodeFrameTooLarge)
}

func TestServerHandshakeDeadline(t *testing.T) {
	config := testConfig(t)
	config.Network.HandshakeTimeout = 150 * time.Millisecond
	c := newCluster(t, config, 1, 1)
	silent, served := c.dial(t), c.connect(t)
	wantError(t, silent.wantClosed(), 0, proto.CodeHandshakeRequired)
	decode(t, []frame{served.ask(&proto.PingRequest{})}, &proto.PingResponse{})
}

func TestServerLimitsConnections(t *testing.T) {
	config := testConfig(t)
	config.Network.MaxConnections = 3
	config.Network.MaxConnectionsPerIP = 2
	c := newCluster(t, config, 2, 1)
	first, _ := c.connect(t), c.connect(t)
	third := c.dial(t)
	if e := wantError(t, third.wantClosed(), 0, proto.CodeTooManyConnections); e.Limit != 2 {
		t.Fatalf("limit %d, want that of one address", e.Limit)
	}
	if n := c.server.limits.Refused(); n != 1 {
		t.Fatalf("%d refused", n)
	}
	// When one leaves there is room again.
	first.conn.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		cl := c.dial(t)
		if f := cl.ask(&proto.HelloRequest{Magic: proto.Magic}); f.header.Command == proto.CommandHello {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no room after a connection has left")
		}
	}
}

// Connections are spread over the reactors.
func TestServerSpreadsConnections(t *testing.T) {
	c := newCluster(t, testConfig(t), 3, 1)
	for range 9 {
		c.connect(t)
	}
	for i, l := range c.server.loops {
		if n := l.connections.Load(); n != 3 {
			t.Errorf("reactor %d has %d connections, want 3", i, n)
		}
	}
}

func TestServerListenErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, x := range []struct {
		host string
		port int
		want string
	}{
		{"127.0.0.1", taken.Addr().(*net.TCPAddr).Port, "network.port"},
		{"192.0.2.1", 0, "network.host"},
		{"no-such-host.invalid", 0, "network.host"},
	} {
		config := testConfig(t)
		config.Network.Host, config.Network.Port = x.host, x.port
		link := &mail.Link{Requests: ring.NewSPSC[mail.Request](1), Answers: ring.NewSPSC[mail.Answer](1), Shard: &kicks{}}
		views := &mail.Views{}
		views.Publish(&testView{})
		server, err := NewServer(ServerOptions{
			Config: config, Links: [][]*mail.Link{{link}}, Views: views, Clock: realClock{}, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err == nil || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), x.host) {
			t.Errorf("listening on %s:%d: %v, want an error that names %s", x.host, x.port, err, x.want)
		}
	}
}

// The wildcard of IPv6 serves IPv4 too; a name serves all its addresses on one port.
func TestServerDualStack(t *testing.T) {
	for _, host := range []string{"::", "localhost"} {
		config := testConfig(t)
		config.Network.Host = host
		c := newCluster(t, config, 1, 1)
		port := c.server.Addresses()[0].(*net.TCPAddr).Port
		hosts := []string{"127.0.0.1", "::1"}
		if host == "localhost" {
			var err error
			if hosts, err = net.LookupHost(host); err != nil {
				t.Fatal(err)
			}
		}
		for _, to := range hosts {
			conn, err := net.Dial("tcp", net.JoinHostPort(to, strconv.Itoa(port)))
			if err != nil {
				t.Fatalf("%s does not serve %s: %v", host, to, err)
			}
			cl := &client{t: t, conn: conn}
			decode(t, []frame{cl.ask(&proto.HelloRequest{Magic: proto.Magic})}, &proto.HelloResponse{})
			conn.Close()
		}
	}
}

// Requests under way are answered before the end; new ones are refused.
func TestServerShutdown(t *testing.T) {
	c := newCluster(t, testConfig(t), 2, 1)
	cl := c.connect(t)
	c.paused[0].Lock()
	cl.send(produce(0, testBatch(t, 1, 100)))
	decode(t, []frame{cl.ask(&proto.PingRequest{})}, &proto.PingResponse{}) // the PRODUCE has arrived
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		done <- c.server.Shutdown(ctx)
	}()
	// Refused from some moment on; until then served, by the shard that stands still.
	<-c.server.stopping
	for !c.draining() {
		runtime.Gosched()
	}
	id := cl.send(&proto.MetadataRequest{})
	wantError(t, []frame{cl.read()}, id, proto.CodeShuttingDown)
	if conn, err := net.Dial("tcp", c.server.Addresses()[0].String()); err == nil {
		conn.Close()
		t.Error("a new connection was accepted")
	}
	select {
	case err := <-done:
		t.Fatalf("the server was down with a request under way: %v", err)
	default:
	}
	c.paused[0].Unlock()
	got := cl.wantClosed()
	if len(got) != 2 {
		t.Fatalf("got %v, want the answer and a farewell", got)
	}
	decode(t, got[:1], &proto.ProduceResponse{})
	wantError(t, got[1:], 0, proto.CodeShuttingDown)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestServerShutdownLate(t *testing.T) {
	c := newCluster(t, testConfig(t), 1, 1)
	cl := c.connect(t)
	c.paused[0].Lock()
	defer c.paused[0].Unlock()
	cl.send(produce(0, testBatch(t, 1, 100)))
	decode(t, []frame{cl.ask(&proto.PingRequest{})}, &proto.PingResponse{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := c.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want that the time was over", err)
	}
	wantError(t, cl.wantClosed(), 0, proto.CodeShuttingDown)
}

// A long poll does not hold up the end.
func TestServerShutdownWithLongPoll(t *testing.T) {
	c := newCluster(t, testConfig(t), 1, 1)
	cl := c.connect(t)
	c.paused[0].Lock() // as if it waited for data
	id := cl.send(fetch(0, 0))
	decode(t, []frame{cl.ask(&proto.PingRequest{})}, &proto.PingResponse{})
	if err := c.server.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.paused[0].Unlock()
	got := cl.wantClosed()
	if len(got) != 2 {
		t.Fatalf("got %v, want a refusal and a farewell", got)
	}
	wantError(t, got[:1], id, proto.CodeShuttingDown)
	wantError(t, got[1:], 0, proto.CodeShuttingDown)
}

// Many clients at once, each with many requests in flight, on several reactors
// and shards; some leave in the middle.
func TestServerManyClients(t *testing.T) {
	c := newCluster(t, testConfig(t), 3, 2)
	var all sync.WaitGroup
	for i := range 12 {
		all.Add(1)
		cl := c.connect(t)
		go func() {
			defer all.Done()
			const count = 200
			batch, large := testBatch(t, 2, 100), testBatch(t, 1, 200<<10)
			go func() {
				var stream []byte
				for n := range uint64(count) {
					m := produce(uint32(n)%8, batch)
					if n%50 == 7 {
						m.Batch = large
					}
					stream = proto.AppendFrame(stream, 100+n, m)
				}
				if i%4 == 3 {
					stream = stream[:len(stream)/2]
				}
				cl.conn.Write(stream)
				if i%4 == 3 {
					cl.conn.Close()
				}
			}()
			if i%4 == 3 {
				return
			}
			for range count {
				f, err := cl.next()
				if err != nil || f.header.Command != proto.CommandProduce {
					t.Errorf("client %d: %v %v", i, f.header, err)
					return
				}
			}
		}()
	}
	all.Wait()
	// All slabs come home, also of those who left.
	deadline := time.Now().Add(10 * time.Second)
	for _, l := range c.server.loops {
		for _, link := range l.reactor.links {
			for link.Arena.(*testArena).out.Load() != 0 {
				if time.Now().After(deadline) {
					t.Fatalf("%d slabs are lost", link.Arena.(*testArena).out.Load())
				}
				runtime.Gosched()
			}
		}
	}
}

// A consumer over a slow socket gets everything: the broker's own look at the
// socket moves the chunks on.
func TestServerManyChunks(t *testing.T) {
	c := newCluster(t, testConfig(t), 1, 1)
	cl := c.connect(t)
	batch := testBatch(t, 1, 500<<10)
	const count = 40
	for range count {
		decode(t, []frame{cl.ask(produce(0, batch))}, &proto.ProduceResponse{})
	}
	_ = cl.conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	id := cl.send(&proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, 0, 1)}, CreditBytes: 1 << 40})
	for next := int64(0); next < count; {
		f := cl.read()
		if f.header.Command == proto.CommandSubscribe {
			continue
		}
		m := pushes(t, []frame{f})[0]
		got, err := proto.ParseBatch(m.Batches)
		if err != nil || f.header.RequestID != id || got.BaseOffset() != next {
			t.Fatalf("offset %d, want %d: %v", got.BaseOffset(), next, err)
		}
		next = got.NextOffset()
	}
}

// A client that takes nothing of what it asked for is closed, and the broker keeps
// a bounded part of it in memory.
func TestServerClosesSlowReaders(t *testing.T) {
	config := testConfig(t)
	config.Network.SendBufferMax = 2 << 20
	config.Network.SlowReaderTimeout = 300 * time.Millisecond
	c := newCluster(t, config, 1, 1)
	cl := c.connect(t)
	batch := testBatch(t, 1, 900<<10)
	const count = 60
	for range count {
		decode(t, []frame{cl.ask(produce(0, batch))}, &proto.ProduceResponse{})
	}
	slow := c.connect(t)
	slow.send(&proto.SubscribeRequest{Add: []proto.SubscribePartition{subscribe(0, 0, 1)}, CreditBytes: 1 << 40})
	for deadline := time.Now().Add(15 * time.Second); ; {
		var failures uint64
		for _, s := range c.server.Stats() {
			failures += s.Failures[proto.CodeSlowConsumer]
		}
		if failures == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the slow reader is still there")
		}
	}
	// It is told why, behind what it had been sent, if it reads after all.
	got := slow.wantClosed()
	wantError(t, got[len(got)-1:], 0, proto.CodeSlowConsumer)
	if n := len(pushes(t, got)); n == count {
		t.Error("everything was pushed to a client that did not read")
	}
	decode(t, []frame{cl.ask(&proto.PingRequest{})}, &proto.PingResponse{})
}

// Steady producing allocates nothing in the reactor and below it: the process's
// allocations per request, test client and shard included, which are written to
// allocate nothing.
func TestServerAllocatesNothing(t *testing.T) {
	config := testConfig(t)
	c := newQuietCluster(t, config)
	cl := c.connect(t)
	frameBytes := proto.AppendFrame(nil, 77, produce(0, testBatch(t, 1, 300)))
	answer := make([]byte, 4096)
	round := func() {
		if _, err := cl.conn.Write(frameBytes); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(cl.conn, answer[:c.answerBytes]); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		round()
	}
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	const rounds = 5000
	for range rounds {
		round()
	}
	metrics.Read(sample)
	// Other things of the process allocate now and then; one per ten requests would
	// already be a path that allocates.
	if n := sample[0].Value.Uint64() - before; n > rounds/10 {
		t.Errorf("%d allocations in %d requests", n, rounds)
	}
}
