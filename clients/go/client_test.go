package pulsemq

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

func TestConnectSaysWhyNot(t *testing.T) {
	c := fake(t, 1)
	c.Node(1).Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := Connect(ctx, c.Addresses())
	if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.Node(1).Address()) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if !Retriable(err) {
		t.Error("not retriable")
	}
	// Without a deadline the dial timeout is one.
	if _, err := Connect(context.Background(), c.Addresses(), ClientDialTimeout(50*time.Millisecond)); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	for _, list := range []string{"", "kafka://x", "host:0", "a b", "host:port", "mq://,"} {
		if _, err := Connect(context.Background(), list); err == nil || errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "broker list") {
			t.Errorf("list %q: %v", list, err)
		}
	}
	if _, err := Connect(context.Background(), "x", ClientKeepalive(0), ClientReconnect(2, 1)); err == nil || !strings.Contains(err.Error(), "ClientKeepalive 0s") || !strings.Contains(err.Error(), "max") {
		t.Errorf("%v", err)
	}
}

// TestStalledBrokerDuringHandshake accepts and says nothing.
func TestStalledBrokerDuringHandshake(t *testing.T) {
	c := fake(t, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, l.Addr().String()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	// One that works is found behind one that does not.
	client, err := Connect(within(t), l.Addr().String()+","+strings.TrimPrefix(c.Addresses(), "mq://"))
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
}

func TestLazyConnects(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	address := c.Node(1).Address()
	c.Node(1).Stop()
	client := connect(t, c, ClientLazy())
	if err := c.Node(1).Start(address); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Admin().ListTopics(within(t)); err != nil {
		t.Fatal(err)
	}
}

// TestMovedAddress is case 48 of the faults: the broker comes back at another address under the same name.
func TestMovedAddress(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	var resolved atomic.Int32
	client := connect(t, c, ClientDial(func(ctx context.Context, network, address string) (net.Conn, error) {
		resolved.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, c.Node(1).Address()) // what the name means now
	}))
	p := producer(t, client)
	k := consumer(t, client)
	if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := p.Send(within(t), &Message{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		read(t, k, 1)
		if err := c.Node(1).Move("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	if resolved.Load() < 6 {
		t.Errorf("resolved %d times", resolved.Load())
	}
}

// TestAdvertisedAddressMoves has only the metadata of another broker say where the leader is now.
func TestAdvertisedAddressMoves(t *testing.T) {
	c := fake(t, 2)
	c.Create("t", 2)
	p := producer(t, connect(t, c))
	to := &Message{Topic: "t", Partition: PartitionNumber(1)}
	for range 3 {
		if _, err := p.Send(within(t), to); err != nil {
			t.Fatal(err)
		}
		if err := c.Node(2).Move("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDualStack(t *testing.T) {
	c := fake(t, 1)
	_, port, _ := net.SplitHostPort(c.Node(1).Address())
	// localhost is ::1 and 127.0.0.1 on most machines; the broker listens on the second only.
	client, err := Connect(within(t), "mq://localhost:"+port)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := c.Node(1).Move("[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6: ", err)
	}
	_, port, _ = net.SplitHostPort(c.Node(1).Address())
	if client, err = Connect(within(t), "[::1]:"+port); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Admin().ListTopics(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestVersionsDoNotOverlap(t *testing.T) {
	c := fake(t, 1)
	for i := range c.Commands {
		switch c.Commands[i].Command {
		case proto.CommandListOffsets:
			c.Commands[i].VersionMin, c.Commands[i].VersionMax = 2, 3
		case proto.CommandDeleteRecords:
			c.Commands[i].Command = 99
		}
	}
	c.Create("t", 1)
	admin := connect(t, c).Admin()
	if _, err := admin.ListTopics(within(t)); err != nil {
		t.Error(err)
	}
	o, err := admin.ListOffsets(within(t), "t", OffsetLatest())
	if err != nil || !errors.Is(o[0].Err, ErrUnsupportedVersion) || !strings.Contains(o[0].Err.Error(), "2 to 3") {
		t.Errorf("%v, %v", o, err)
	}
	if _, err := admin.DeleteRecords(within(t), "t", 0, 0); !errors.Is(err, ErrUnknownCommand) {
		t.Error(err)
	}
}

// TestWindowIsKept gives room for two requests, then for less than a batch takes, which lets one at a time pass, then
// for none, then for all.
func TestWindowIsKept(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 8)
	c.WindowRequests = 2
	client := connect(t, c)
	p := producer(t, client, ProducerBatchRecords(1))
	for n := range 8 { // metadata and identity are there
		if _, err := p.Send(within(t), &Message{Topic: "t", Partition: PartitionNumber(uint32(n))}); err != nil {
			t.Fatal(err)
		}
	}
	c.Node(1).Stall()
	before := c.Requests(proto.CommandProduce)
	var results atomic.Int32
	for i := range 24 {
		if err := p.SendAsync(within(t), &Message{Topic: "t", Partition: PartitionNumber(uint32(i % 8))}, func(_ Result, err error) {
			if err == nil {
				results.Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	c.Node(1).Resume()
	if err := p.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	if results.Load() != 24 || c.Requests(proto.CommandProduce) != before+24 {
		t.Errorf("%d results, %d requests", results.Load(), c.Requests(proto.CommandProduce)-before)
	}
	c.Node(1).Credit(50, 100) // a batch takes more
	for range 3 {
		if _, err := p.Send(within(t), &Message{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	c.Node(1).Credit(1<<20, 0)
	until(t, "the smaller window has arrived", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err := p.Send(ctx, &Message{Topic: "t"})
		return errors.Is(err, context.DeadlineExceeded)
	})
	c.Node(1).Credit(1<<20, 100)
	if err := p.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestKeepalive(t *testing.T) {
	c := fake(t, 1)
	client := connect(t, c, ClientKeepalive(20*time.Millisecond))
	until(t, "a PING came", func() bool { return c.Requests(proto.CommandPing) > 2 })
	c.Node(1).Ping() // an answer that is no answer would end the connection
	if n := c.Node(1).Sessions(); n != 1 {
		t.Errorf("%d connections", n)
	}
	live, err := client.cluster.Any(within(t))
	if err != nil {
		t.Fatal(err)
	}
	c.Node(1).Stall()
	begun := time.Now()
	select {
	case <-live.Closed():
	case <-within(t).Done():
		t.Fatal("a silent broker keeps its connection")
	}
	if took := time.Since(begun); took > 5*time.Second || !errors.Is(live.Err(), ErrDisconnected) || !strings.Contains(live.Err().Error(), "nothing was heard") {
		t.Errorf("after %v: %v", took, live.Err())
	}
	c.Node(1).Resume()
	if _, err := client.Admin().ListTopics(within(t)); err != nil {
		t.Error(err)
	}
}

func TestLateAnswerEndsConnection(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	client := connect(t, c, ClientRequestTimeout(50*time.Millisecond))
	var once atomic.Bool
	// The fake asks about faults on the goroutine that reads, so keepalive must not be what ends it.
	p := producer(t, client)
	if _, err := p.Send(within(t), &Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	live, _ := client.cluster.Any(within(t))
	c.SetFault(faultOnce(&once))
	if r, err := p.Send(within(t), &Message{Topic: "t"}); err != nil || !r.Duplicate {
		t.Errorf("%+v, %v", r, err)
	}
	if !errors.Is(live.Err(), ErrRequestTimeout) {
		t.Errorf("%v", live.Err())
	}
}

func TestClientCloseEndsEverything(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	client := connect(t, c)
	p := producer(t, client)
	k := consumer(t, client, ConsumerMode(ConsumerPush))
	if err := k.AssignTopic(within(t), "t", StartEarliest()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(within(t), &Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	c.Node(1).Stall()
	result := make(chan error, 1)
	if err := p.SendAsync(within(t), &Message{Topic: "t"}, func(_ Result, err error) { result <- err }); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := client.NewProducer(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := client.NewConsumer(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := client.Admin().ListTopics(within(t)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestRetriable(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, context.Canceled: false, context.DeadlineExceeded: false, ErrClosed: false, ErrUnknownTopic: false,
		ErrNotLeader: true, ErrOverloaded: true, ErrDisconnected: true, ErrBufferFull: true,
		&Error{Code: ErrStorageFull}:               true,
		&PartitionError{Err: ErrTimedOut}:          true,
		&PartitionError{Err: ErrClosed}:            false,
		errors.New("something else"):               false,
		errors.Join(ErrUnreachable, net.ErrClosed): true,
	} {
		if got := Retriable(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
