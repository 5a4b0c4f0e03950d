package netio

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// realClock is the machine's.
type realClock struct{ start time.Time }

func (c realClock) Now() int64       { return time.Now().UnixNano() }
func (c realClock) Monotonic() int64 { return int64(time.Since(c.start)) }

// cluster is a server on a free port with fake shards on threads of their own.
type cluster struct {
	server *Server
	shards []*fakeShard
	stop   chan struct{}
	done   sync.WaitGroup
	paused []sync.Mutex // held by a test that stops a shard
}

// quietCluster has one reactor and a shard that answers PRODUCE without allocating.
type quietCluster struct {
	*cluster
	answerBytes int
}

func newQuietCluster(t testing.TB, config *core.Config) *quietCluster {
	t.Helper()
	waker := make(chanWaker, 1)
	link := &mail.Link{
		Requests: ring.NewSPSC[mail.Request](256), Answers: ring.NewSPSC[mail.Answer](256),
		Shard: waker, Arena: newReusingArena(),
	}
	views := &mail.Views{}
	views.Publish(&testView{epoch: 5, topics: []*core.Topic{testTopic(topicA, "alpha", 8, 16)}})
	server, err := NewServer(ServerOptions{
		Config: config, Links: [][]*mail.Link{{link}}, Views: views, Clock: realClock{time.Now()},
		Log: slog.New(slog.DiscardHandler), WindowBudgetBytes: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-waker:
			}
			for {
				q, ok := link.Requests.Pop()
				if !ok {
					break
				}
				if q.Kind == mail.RequestProduce {
					q.Slab.Release()
					link.Answers.Push(mail.Answer{Kind: mail.AnswerProduce, Conn: q.Conn, ID: q.ID})
				}
			}
			link.Reactor.Kick()
		}
	}()
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		close(stop)
		<-done
	})
	size := proto.FrameHeaderBytes + (&proto.ProduceResponse{}).Size()
	return &quietCluster{cluster: &cluster{server: server}, answerBytes: size}
}

// chanWaker lets a fake shard sleep.
type chanWaker chan struct{}

func (w chanWaker) Kick() {
	select {
	case w <- struct{}{}:
	default:
	}
}

func testConfig(t testing.TB) *core.Config {
	t.Helper()
	return &core.Config{
		Broker: core.BrokerConfig{NodeID: 1},
		Network: core.NetworkConfig{
			Host: "127.0.0.1", AdvertisedHost: "127.0.0.1", MaxConnections: 100, MaxConnectionsPerIP: 100,
			HandshakeTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second, Keepalive: 30 * time.Second,
			WindowBytes: 8 << 20, WindowRequests: 1024, SlowReaderTimeout: 30 * time.Second, SendBufferMax: 8 << 20,
		},
		Producer: core.ProducerConfig{MaxBatchBytes: 1 << 20, MaxBatchSize: 100_000},
		Consumer: core.ConsumerConfig{MaxFetchBytes: 16 << 20, MaxFetchMessages: 100_000, MaxFetchWait: 30 * time.Second},
	}
}

func newCluster(t testing.TB, config *core.Config, reactors, shards int) *cluster {
	t.Helper()
	c := &cluster{stop: make(chan struct{}), paused: make([]sync.Mutex, shards)}
	links := make([][]*mail.Link, reactors)
	byShard := make([][]*mail.Link, shards)
	wakers := make([]chanWaker, shards)
	for i := range wakers {
		wakers[i] = make(chanWaker, 1)
	}
	for r := range links {
		for s := range shards {
			link := &mail.Link{
				Requests: ring.NewSPSC[mail.Request](256), Answers: ring.NewSPSC[mail.Answer](256),
				Shard: wakers[s], Arena: &testArena{budget: 4096},
			}
			links[r] = append(links[r], link)
			byShard[s] = append(byShard[s], link)
		}
	}
	views := &mail.Views{}
	views.Publish(&testView{epoch: 5, topics: []*core.Topic{testTopic(topicA, "alpha", 8, 16), testTopic(topicB, "beta", 1, 100)}})
	server, err := NewServer(ServerOptions{
		Config: config, Links: links, Views: views, Clock: realClock{time.Now()},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), WindowBudgetBytes: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.server = server
	for i := range shards {
		f := newFakeShard(byShard[i])
		c.shards = append(c.shards, f)
		c.done.Add(1)
		go func() {
			defer c.done.Done()
			for {
				c.paused[i].Lock()
				worked := f.step()
				c.paused[i].Unlock()
				if worked {
					continue
				}
				select {
				case <-c.stop:
					return
				case <-wakers[i]:
				case <-time.After(time.Millisecond): // an answer ring was full
				}
			}
		}()
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		select {
		case <-server.stopping: // the test has
		default:
			if err := server.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		}
		close(c.stop)
		c.done.Wait()
	})
	return c
}

// client speaks the protocol over a socket.
type client struct {
	t    testing.TB
	conn net.Conn
	id   uint64
}

func (c *cluster) dial(t testing.TB) *client {
	t.Helper()
	conn, err := net.Dial("tcp", c.server.Addresses()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &client{t: t, conn: conn}
}

// connect dials and says HELLO.
func (c *cluster) connect(t testing.TB) *client {
	t.Helper()
	cl := c.dial(t)
	decode(t, []frame{cl.ask(&proto.HelloRequest{Magic: proto.Magic})}, &proto.HelloResponse{})
	return cl
}

func (c *client) send(m proto.Message) uint64 {
	c.t.Helper()
	c.id++
	if _, err := c.conn.Write(proto.AppendFrame(nil, c.id, m)); err != nil {
		c.t.Fatal(err)
	}
	return c.id
}

func (c *client) read() frame {
	c.t.Helper()
	f, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

func (c *client) next() (frame, error) {
	head := make([]byte, proto.FrameHeaderBytes)
	if _, err := io.ReadFull(c.conn, head); err != nil {
		return frame{}, err
	}
	h, _, err := proto.DecodeFrameHeader(head, 1<<30)
	if err != nil {
		return frame{}, err
	}
	payload := make([]byte, h.PayloadBytes())
	_, err = io.ReadFull(c.conn, payload)
	return frame{h, payload}, err
}

func (c *client) ask(m proto.Message) frame {
	c.t.Helper()
	c.send(m)
	return c.read()
}

// wantClosed reads until the broker closes, and returns the frames before that.
func (c *client) wantClosed() []frame {
	c.t.Helper()
	var list []frame
	for {
		f, err := c.next()
		if err != nil {
			if err != io.EOF {
				c.t.Fatalf("the connection ended with %v, want an orderly end", err)
			}
			return list
		}
		list = append(list, f)
	}
}

// draining says whether every reactor knows of the end: each has taken a turn.
func (c *cluster) draining() bool {
	for _, l := range c.server.loops {
		if !l.drainSeen.Load() {
			return false
		}
	}
	return true
}
