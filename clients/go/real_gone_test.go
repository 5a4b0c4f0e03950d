package pulsemq_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

const (
	// goneTimeout is how long an application here is ready to wait.
	goneTimeout = 2 * time.Second
	// goneSlack is what a loaded machine may add.
	goneSlack = 5 * time.Second
)

// inTime wants a call to return no sooner than least and about when its time is up.
func inTime(t *testing.T, what string, least time.Duration, call func()) {
	t.Helper()
	begun := time.Now()
	call()
	if took := time.Since(begun); took < least || took > goneTimeout+goneSlack {
		t.Errorf("%s took %v, its time was %v", what, took, goneTimeout)
	}
}

func upTo(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// pause stops the broker's process as a debugger or a sleeping machine does, and returns when it has stopped.
func (b *broker) pause(t *testing.T) {
	t.Helper()
	pid := b.process.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the broker is not stopped: %v", err)
	}
}

// TestRealBrokerGone is an application that waits two seconds and no longer: a topic that does not exist, a broker that
// hangs, one that is down. Each call comes back in time with an error, the buffer stays bounded, and Close reports every
// send once.
func TestRealBrokerGone(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(*broker)
		topic   string
		least   time.Duration // before that it is still worth trying
		cause   error
	}{
		"unknown topic":  {func(*broker) {}, "nowhere", 0, pulsemq.ErrUnknownTopic},
		"broker hangs":   {func(b *broker) { b.pause(t) }, "t", goneTimeout * 15 / 16, pulsemq.ErrDeliveryTimeout},
		"broker is down": {func(b *broker) { b.kill() }, "t", goneTimeout * 15 / 16, pulsemq.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := realBroker(t)
			t.Cleanup(func() { b.process.Process.Signal(syscall.SIGCONT) })
			client := connect(t, b)
			if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t"}); err != nil {
				t.Fatal(err)
			}
			const bufferBytes = 64 << 10
			options := []pulsemq.ProducerOption{pulsemq.ProducerDeliveryTimeout(goneTimeout), pulsemq.ProducerBufferBytes(bufferBytes), pulsemq.ProducerBufferBlock(false)}
			p, err := client.NewProducer(options...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Send(within(t), &pulsemq.Message{Topic: "t", Value: []byte("before")}); err != nil {
				t.Fatal(err)
			}
			closing, err := client.NewProducer(append(options, pulsemq.ProducerDeliveryTimeout(time.Hour))...)
			if err != nil {
				t.Fatal(err)
			}
			k, err := client.NewConsumer()
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			c.breakIt(b)
			var calls sync.WaitGroup
			calls.Go(func() {
				inTime(t, "Send", c.least, func() {
					if _, err := p.Send(within(t), &pulsemq.Message{Topic: c.topic}); !errors.Is(err, c.cause) {
						t.Errorf("Send: %v", err)
					}
				})
			})
			calls.Go(func() {
				inTime(t, "AssignTopic and Poll", 0, func() {
					ctx := upTo(t, goneTimeout)
					err := k.AssignTopic(ctx, c.topic, pulsemq.StartEarliest())
					if err == nil {
						_, err = k.Poll(ctx)
					}
					if err == nil {
						t.Error("there are records")
					}
				})
			})
			if c.topic == "t" {
				calls.Go(func() {
					inTime(t, "ListTopics", 0, func() {
						if _, err := client.Admin().ListTopics(upTo(t, goneTimeout)); err == nil {
							t.Error("ListTopics has an answer")
						}
					})
				})
			}
			calls.Wait()
			// What is sent meanwhile fits the buffer or is refused, and all of it is reported by Close.
			var taken, reported, stored atomic.Int32
			full := false
			for range 1000 {
				switch err := closing.SendAsync(within(t), &pulsemq.Message{Topic: c.topic, Value: make([]byte, 1000)}, func(_ pulsemq.Result, err error) {
					if reported.Add(1); err == nil {
						stored.Add(1)
					}
				}); {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, pulsemq.ErrBufferFull):
					full = true
				case !errors.Is(err, c.cause):
					t.Fatalf("SendAsync: %v", err)
				}
				if bytes, _ := closing.Buffered(); bytes > bufferBytes {
					t.Fatalf("%d bytes are buffered, %d are allowed", bytes, bufferBytes)
				}
			}
			if c.topic == "t" && !full {
				t.Error("the buffer never was full")
			}
			inTime(t, "Close", 0, func() { err = closing.Close(upTo(t, goneTimeout)) })
			if taken.Load() != reported.Load() || stored.Load() > 0 {
				t.Errorf("%d messages were taken, %d reported, %d of them as stored; Close: %v", taken.Load(), reported.Load(), stored.Load(), err)
			}
			inTime(t, "Client.Close", 0, func() { client.Close() })
		})
	}
}

// TestRealBrokerMoves restarts the broker on other ports, while clients know it by a name that follows.
func TestRealBrokerMoves(t *testing.T) {
	data := t.TempDir()
	var mu sync.Mutex
	var b *broker
	move := func() {
		mu.Lock()
		defer mu.Unlock()
		if b != nil {
			b.stop()
		}
		var err error
		if b, err = startBroker(data, "127.0.0.1:0", "--set", "network.advertised-host=broker.test", "--set", "network.advertised-port=9090"); errors.Is(err, errNoBroker) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	move()
	t.Cleanup(func() { b.stop() })
	client, err := pulsemq.Connect(within(t), "broker.test", pulsemq.ClientReconnect(5*time.Millisecond, 100*time.Millisecond),
		pulsemq.ClientDial(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "broker.test:9090" {
				t.Errorf("the client connects to %s", address)
			}
			mu.Lock() // the name means nothing while the broker is away
			to := b.address
			mu.Unlock()
			return (&net.Dialer{}).DialContext(ctx, network, to)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	p, err := client.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(within(t))
	k, err := client.NewConsumer()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.AssignTopic(within(t), "t", pulsemq.StartEarliest()); err != nil {
		t.Fatal(err)
	}
	for n := range int64(3) {
		if r, err := p.Send(within(t), &pulsemq.Message{Topic: "t"}); err != nil || r.Offset != n {
			t.Fatalf("%+v, %v", r, err)
		}
		if records, err := k.Poll(within(t)); err != nil || len(records) != 1 || records[0].Offset != n {
			t.Fatalf("%v, %v", records, err)
		}
		move()
	}
}

// TestRealBrokerAddresses connects to a broker that listens on IPv4 alone under a name that may mean both, and to one on
// IPv6 by its address in brackets.
func TestRealBrokerAddresses(t *testing.T) {
	for _, listen := range []string{"127.0.0.1", "::1"} {
		t.Run(listen, func(t *testing.T) {
			probe, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
			if err != nil {
				t.Skip("this machine has no such address: ", err)
			}
			probe.Close()
			b, err := startBroker(t.TempDir(), net.JoinHostPort(listen, "0"))
			if errors.Is(err, errNoBroker) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.stop() })
			address := b.address // [::1]:port, as the broker logs it
			if listen == "127.0.0.1" {
				_, port, _ := net.SplitHostPort(b.address)
				address = "localhost:" + port
			}
			client, err := pulsemq.Connect(within(t), address)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t"}); err != nil {
				t.Fatal(err)
			}
			p, err := client.NewProducer()
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close(within(t))
			// The leader's address comes from the broker: the client reaches that, too.
			if _, err := p.Send(within(t), &pulsemq.Message{Topic: "t"}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
