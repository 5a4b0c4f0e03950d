package ceiling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
)

const (
	// echoReadBytes is what one read of a socket takes at most: as much as in the broker.
	echoReadBytes = 128 << 10

	// echoBodyBytesMax bounds a request other than PRODUCE. All of them are small.
	echoBodyBytesMax = 1 << 20

	// Limits that the server announces. They are wide, so that it is never the window that holds the client back.
	echoFrameBytesMax  = 64 << 20
	echoWindowBytes    = 256 << 20
	echoWindowRequests = 1 << 16
)

// Echo is a server that answers PRODUCE with an acknowledgement as soon as it has read it, and keeps nothing; FETCH it
// answers out of memory. It knows just as much of the protocol as a producer and a consumer need; every topic exists and
// has the same number of partitions.
type Echo struct {
	listener   *net.TCPListener
	partitions int
	log        *shownLog
	client     *gnet.Client
	accepting  sync.WaitGroup
	producers  atomic.Int64
	offset     atomic.Int64 // of the next batch; one for all partitions, because nobody reads them
}

// EchoSpec says what an echo server shows, and how it serves.
type EchoSpec struct {
	Address    string
	Loops      int // event loops
	Partitions int
	Records    int64 // that FETCH finds in each partition
}

// StartEcho listens and serves.
func StartEcho(spec EchoSpec) (*Echo, error) {
	log, err := newShownLog(spec.Records)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", spec.Address)
	if err != nil {
		return nil, err
	}
	e := &Echo{listener: listener.(*net.TCPListener), partitions: spec.Partitions, log: log}
	e.client, err = gnet.NewClient(&echoEvents{echo: e}, gnet.WithNumEventLoop(spec.Loops), gnet.WithLockOSThread(true),
		gnet.WithReadBufferCap(echoReadBytes), gnet.WithLogger(silentLog{}))
	if err == nil {
		err = e.client.Start()
	}
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("start the echo server: %w", err)
	}
	e.accepting.Go(e.accept)
	return e, nil
}

// Address is where it listens.
func (e *Echo) Address() string { return e.listener.Addr().String() }

// Close ends it and its connections.
func (e *Echo) Close() error {
	err := e.listener.Close()
	e.accepting.Wait()
	return errors.Join(err, e.client.Stop())
}

func (e *Echo) accept() {
	for {
		conn, err := e.listener.AcceptTCP()
		if err != nil {
			return
		}
		// gnet puts the zone of an address into a pool of byte slices when it closes a connection, as if it had
		// allocated it; these strings are not its to reuse.
		conn.LocalAddr().(*net.TCPAddr).Zone = ""
		conn.RemoteAddr().(*net.TCPAddr).Zone = ""
		if _, err := e.client.EnrollContext(conn, &echoConn{echo: e}); err != nil {
			conn.Close()
		}
	}
}

// Serve is what the process of its own does: it says in one line of JSON where it listens, as a broker's log does, and
// serves until ctx ends.
func Serve(ctx context.Context, log io.Writer, spec EchoSpec) error {
	e, err := StartEcho(spec)
	if err != nil {
		return err
	}
	line, err := json.Marshal(struct {
		Message string `json:"msg"`
		Address string `json:"address"`
	}{"ready", e.Address()})
	if err == nil {
		_, err = fmt.Fprintf(log, "%s\n", line)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, e.Close())
}

// echoEvents is what gnet calls.
type echoEvents struct {
	gnet.BuiltinEventEngine
	echo *Echo
}

// OnTraffic takes what has arrived.
func (*echoEvents) OnTraffic(c gnet.Conn) gnet.Action {
	at := c.Context().(*echoConn)
	b, _ := c.Next(-1) // without an error: all that there is
	at.conn = c
	if err := at.take(b); err != nil {
		slog.Error("the echo server ends a connection", "error", err)
		return gnet.Close
	}
	at.flush()
	return gnet.None
}

// flush sends what was gathered.
func (c *echoConn) flush() {
	if len(c.out) > 0 {
		_, _ = c.conn.Write(c.out) // a connection that is gone is told to OnClose
		c.out = c.out[:0]
	}
}

// echoConn is one connection. It belongs to its event loop.
type echoConn struct {
	echo   *Echo
	head   []byte // of a frame that has arrived in part
	header proto.FrameHeader
	body   []byte // of a request other than PRODUCE
	left   int    // bytes of the frame that are still to come
	inside bool   // header is that of a frame that has begun
	out    []byte
	answer proto.ProduceResponse

	conn  gnet.Conn
	fetch proto.FetchRequest
	heads []byte   // of the batches of one answer
	parts [][]byte // of one answer
}

// take goes through what has arrived.
func (c *echoConn) take(b []byte) error {
	for len(b) > 0 {
		if !c.inside {
			n := min(proto.FrameHeaderBytes-len(c.head), len(b))
			c.head = append(c.head, b[:n]...)
			if b = b[n:]; len(c.head) < proto.FrameHeaderBytes {
				return nil
			}
			var err error
			if c.header, _, err = proto.DecodeFrameHeader(c.head, echoFrameBytesMax); err != nil {
				return err
			}
			c.head, c.body, c.left, c.inside = c.head[:0], c.body[:0], c.header.PayloadBytes(), true
			if c.header.Command != proto.CommandProduce && c.left > echoBodyBytesMax {
				return fmt.Errorf("%v of %d bytes: %d are allowed", c.header.Command, c.left, echoBodyBytesMax)
			}
		}
		n := min(c.left, len(b))
		if c.header.Command != proto.CommandProduce {
			c.body = append(c.body, b[:n]...)
		}
		c.left -= n
		b = b[n:]
		if c.left == 0 {
			c.inside = false
			if err := c.answerFrame(); err != nil {
				return err
			}
		}
	}
	return nil
}

// answerFrame answers a request that has arrived as a whole.
func (c *echoConn) answerFrame() error {
	id := c.header.RequestID
	if c.header.Command == proto.CommandProduce {
		c.answer.BaseOffset = c.echo.offset.Add(1)
		c.answer.AppendTimeMs = -1
		c.out = proto.AppendFrame(c.out, id, &c.answer)
		return nil
	}
	if c.header.Answer {
		return nil
	}
	if c.header.Command == proto.CommandFetch {
		if err := c.fetch.Decode(c.body); err != nil {
			return err
		}
		c.flush() // answers keep the order of their requests
		c.heads, c.parts = c.echo.log.answer(id, &c.fetch, c.heads, c.parts)
		_, _ = c.conn.Writev(c.parts)
		return nil
	}
	answer, err := c.echo.reply(c.header.Command, c.body)
	if err != nil {
		answer = proto.AsError(err)
	}
	c.out = proto.AppendFrame(c.out, id, answer)
	return nil
}

// reply answers what a client asks before it produces.
func (e *Echo) reply(command proto.Command, body []byte) (proto.Message, error) {
	switch command {
	case proto.CommandHello:
		return e.hello(), nil
	case proto.CommandMetadata:
		return e.metadata(body)
	case proto.CommandDescribeTopic:
		var request proto.DescribeTopicRequest
		if err := request.Decode(body); err != nil {
			return nil, err
		}
		return &proto.DescribeTopicResponse{Name: request.Name, TopicID: request.TopicID}, nil
	case proto.CommandListOffsets:
		var request proto.ListOffsetsRequest
		if err := request.Decode(body); err != nil {
			return nil, err
		}
		answer := &proto.ListOffsetsResponse{Items: make([]proto.ListOffsetsResult, len(request.Items))}
		for i, item := range request.Items {
			if item.Kind == proto.OffsetKindLatest {
				answer.Items[i].Offset = e.log.records
			}
		}
		return answer, nil
	case proto.CommandInitProducer:
		return &proto.InitProducerResponse{ProducerID: e.producers.Add(1)}, nil
	case proto.CommandPing:
		var ping proto.PingRequest
		if err := ping.Decode(body); err != nil {
			return nil, err
		}
		return &proto.PingResponse{Opaque: ping.Opaque}, nil
	}
	return nil, proto.CodeUnknownCommand
}

func (e *Echo) hello() proto.Message {
	hello := &proto.HelloResponse{Magic: proto.Magic, ClusterID: "echo", NodeID: 1, BrokerVersion: "echo " + core.Version,
		WindowBytes: echoWindowBytes, WindowRequests: echoWindowRequests,
		Limits: proto.Limits{FrameBytesMax: echoFrameBytesMax, BatchBytesMax: 16 << 20, BatchRecordsMax: 1 << 20, FetchBytesMax: 8 << 20,
			FetchRecordsMax: 1 << 20, ProducerBatchesInFlightMax: 5}}
	for _, c := range proto.Commands() {
		hello.Commands = append(hello.Commands, proto.CommandRange{Command: c.Command, VersionMin: c.VersionMin, VersionMax: c.VersionMax})
	}
	return hello
}

func (e *Echo) metadata(body []byte) (proto.Message, error) {
	var request proto.MetadataRequest
	if err := request.Decode(body); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(e.Address())
	number, _ := strconv.Atoi(port)
	answer := &proto.MetadataResponse{MetadataEpoch: 1, ClusterID: "echo", Brokers: []proto.MetadataBroker{{NodeID: 1, Host: host, Port: uint16(number)}}}
	for _, name := range request.Names {
		topic := proto.MetadataTopic{Name: name, TopicID: [16]byte{1}}
		for range e.partitions {
			topic.Partitions = append(topic.Partitions, proto.MetadataPartition{Leader: 1, LeaderEpoch: 1, Replicas: []uint32{1}})
		}
		answer.Topics = append(answer.Topics, topic)
	}
	return answer, nil
}

// silentLog drops what gnet says: that connections came and went.
type silentLog struct{}

func (silentLog) Debugf(string, ...any) {}
func (silentLog) Infof(string, ...any)  {}
func (silentLog) Warnf(string, ...any)  {}
func (silentLog) Errorf(string, ...any) {}
func (silentLog) Fatalf(string, ...any) {}
