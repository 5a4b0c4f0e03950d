package pulsemq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
	"github.com/pulsemq/pulsemq/proto"
)

// values are the values of a partition in the order of their offsets.
func values(c *fakebroker.Cluster, topic string, partition int) []string {
	var all []string
	c.Partition(topic, partition, func(l *fakebroker.Log) {
		for _, r := range l.Records() {
			all = append(all, string(r.Value))
		}
	})
	return all
}

func TestSendKeepsEveryByte(t *testing.T) {
	for _, codec := range []Compression{CompressionNone, CompressionGzip, CompressionSnappy, CompressionLZ4, CompressionZstd} {
		t.Run(codec.String(), func(t *testing.T) {
			c := fake(t, 1)
			c.Create("t", 3)
			p := producer(t, connect(t, c), ProducerCompression(codec))
			at := time.UnixMilli(1700000000123)
			r, err := p.Send(within(t), &Message{Topic: "t", Partition: PartitionNumber(2), Value: []byte{}, Timestamp: at,
				Headers: []Header{{"a", nil}, {"a", []byte{}}, {"\xff", []byte{0, 255}}}})
			if err != nil {
				t.Fatal(err)
			}
			want := Result{Topic: "t", Partition: 2, Offset: 0, Timestamp: at, Durability: DurabilitySync}
			if r != want {
				t.Errorf("result %+v, want %+v", r, want)
			}
			c.Partition("t", 2, func(l *fakebroker.Log) {
				got := l.Records()[0]
				if got.Key != nil || got.Value == nil || len(got.Value) != 0 || got.Timestamp != at.UnixMilli() || len(got.Headers) != 3 ||
					got.Headers[0].Value != nil || got.Headers[1].Value == nil || !bytes.Equal(got.Headers[2].Key, []byte{255}) {
					t.Errorf("stored %+v", got)
				}
			})
			if err := p.Close(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKeyDecidesPartition(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 10)
	p := producer(t, connect(t, c))
	for _, key := range []string{"", "abc", "21", "foobar"} {
		r, err := p.Send(within(t), &Message{Topic: "t", Key: []byte(key)})
		if err != nil || r.Partition != proto.PartitionForKey([]byte(key), 10) {
			t.Errorf("key %q: %+v, %v", key, r, err)
		}
	}
}

// TestRetriesStoreOnceInOrder cuts connections at random places, before and after requests are carried out and inside
// answers, refuses some, and looks at what was stored.
func TestRetriesStoreOnceInOrder(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := fake(t, 2)
			c.Create("t", 4)
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(seed, 1))
			var faults atomic.Int64
			c.SetFault(func(m proto.Message) fakebroker.Fault {
				mu.Lock()
				defer mu.Unlock()
				n := rnd.IntN(100)
				switch {
				case n > 30:
					return fakebroker.Fault{}
				case n == 30:
					c.MoveLeader("t", rnd.IntN(4), uint32(1+rnd.IntN(2)))
				}
				faults.Add(1)
				return []fakebroker.Fault{
					{DropBefore: true}, {DropAfter: true}, {CutAnswer: 1 + rnd.IntN(30)},
					{Refuse: &proto.Error{Code: proto.CodeOverloaded, WaitMs: 1}}, {Refuse: &proto.Error{Code: proto.CodeStorageFull}},
					{Delay: time.Millisecond},
				}[n%6]
			})
			p := producer(t, connect(t, c), ProducerBatchRecords(7), ProducerLinger(100*time.Microsecond))
			const messages = 3000
			results := make([]atomic.Int32, messages)
			offsets := make([]Result, messages)
			for i := range messages {
				err := p.SendAsync(within(t), &Message{Topic: "t", Partition: PartitionNumber(uint32(i % 4)), Value: fmt.Append(nil, i)}, func(r Result, err error) {
					results[i].Add(1)
					offsets[i] = r
					if err != nil {
						t.Errorf("message %d: %v", i, err)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if i%100 == 0 {
					time.Sleep(time.Millisecond) // let batches form and fail in many states
				}
			}
			if err := p.Close(within(t)); err != nil {
				t.Fatal(err)
			}
			c.SetFault(nil)
			if faults.Load() < 50 {
				t.Fatalf("only %d faults", faults.Load())
			}
			for i := range messages {
				if n := results[i].Load(); n != 1 {
					t.Errorf("message %d has %d results", i, n)
				}
			}
			for partition := range 4 {
				all := values(c, "t", partition)
				if len(all) != messages/4 {
					t.Fatalf("partition %d has %d records", partition, len(all))
				}
				for n, v := range all {
					i := n*4 + partition
					if v != fmt.Sprint(i) {
						t.Fatalf("partition %d offset %d has message %s, want %d", partition, n, v, i)
					}
					if offsets[i].Offset != int64(n) || offsets[i].Partition != uint32(partition) {
						t.Fatalf("message %d is at offset %d, its result says %+v", i, n, offsets[i])
					}
				}
			}
		})
	}
}

// TestDeliveryTimeout is case 47 of the faults: whatever is wrong, the result comes in time.
func TestDeliveryTimeout(t *testing.T) {
	const timeout = 200 * time.Millisecond
	for name, breakIt := range map[string]func(*fakebroker.Cluster){
		"broker down":    func(c *fakebroker.Cluster) { c.Node(1).Stop() },
		"broker stalled": func(c *fakebroker.Cluster) { c.Node(1).Stall() },
		"no leader":      func(c *fakebroker.Cluster) { c.MoveLeader("t", 0, 0); c.MoveLeader("other", 0, 0) },
		"never answers": func(c *fakebroker.Cluster) {
			c.SetFault(func(proto.Message) fakebroker.Fault { return fakebroker.Fault{Silent: true} })
		},
		"always refuses": func(c *fakebroker.Cluster) {
			c.SetFault(func(m proto.Message) fakebroker.Fault {
				if _, ok := m.(*proto.ProduceRequest); ok {
					return fakebroker.Fault{Refuse: &proto.Error{Code: proto.CodeStorageFull, Text: "full"}}
				}
				return fakebroker.Fault{}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake(t, 1)
			c.Create("t", 1)
			c.Create("other", 1)
			p := producer(t, connect(t, c), ProducerDeliveryTimeout(timeout), ProducerRetry(time.Millisecond, 20*time.Millisecond))
			if _, err := p.Send(within(t), &Message{Topic: "t"}); err != nil {
				t.Fatal(err)
			}
			breakIt(c)
			for _, topic := range []string{"t", "other"} { // with and without metadata
				if topic == "other" && (name == "always refuses" || name == "never answers") {
					continue
				}
				begun := time.Now()
				_, err := p.Send(within(t), &Message{Topic: topic})
				took := time.Since(begun)
				if !errors.Is(err, ErrDeliveryTimeout) {
					t.Errorf("%s: %v", topic, err)
				}
				if took < timeout*15/16 || took > timeout*3 {
					t.Errorf("%s: the result took %v", topic, took)
				}
				if name == "always refuses" && !errors.Is(err, ErrStorageFull) {
					t.Errorf("the cause is missing: %v", err)
				}
				if name == "broker down" && !errors.Is(err, ErrUnreachable) {
					t.Errorf("the cause is missing: %v", err)
				}
			}
			c.SetFault(nil)
			c.Node(1).Resume()
		})
	}
}

// TestGoesOnAfterTimeout checks that a batch that was given up leaves nothing behind that keeps others from being stored
// once and in order.
func TestGoesOnAfterTimeout(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	p := producer(t, connect(t, c), ProducerDeliveryTimeout(time.Second), ProducerBatchRecords(1))
	if _, err := p.Send(within(t), &Message{Topic: "t", Value: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	refuse := atomic.Bool{}
	refuse.Store(true)
	c.SetFault(func(m proto.Message) fakebroker.Fault {
		if _, ok := m.(*proto.ProduceRequest); ok && refuse.Load() {
			return fakebroker.Fault{Refuse: &proto.Error{Code: proto.CodeOverloaded}}
		}
		return fakebroker.Fault{}
	})
	if _, err := p.Send(within(t), &Message{Topic: "t", Value: []byte("lost")}); !errors.Is(err, ErrDeliveryTimeout) {
		t.Fatal(err)
	}
	refuse.Store(false)
	for _, v := range []string{"second", "third"} {
		if _, err := p.Send(within(t), &Message{Topic: "t", Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(values(c, "t", 0)); got != "[first second third]" {
		t.Error(got)
	}
}

func TestUnknownProducer(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	p := producer(t, connect(t, c))
	send := func(v string) error {
		_, err := p.Send(within(t), &Message{Topic: "t", Value: []byte(v)})
		return err
	}
	if err := send("a"); err != nil {
		t.Fatal(err)
	}
	// The broker forgets while nothing is in flight: the next message was never sent, so it may be numbered anew.
	c.Partition("t", 0, (*fakebroker.Log).Forget)
	if err := send("b"); err != nil {
		t.Fatal(err)
	}
	// It forgets after it has stored without answering: whether it did cannot be told any more.
	var once sync.Once
	c.SetFault(func(m proto.Message) (f fakebroker.Fault) {
		if _, ok := m.(*proto.ProduceRequest); ok {
			once.Do(func() { f.DropAfter = true })
			if !f.DropAfter {
				c.Partition("t", 0, (*fakebroker.Log).Forget)
			}
		}
		return f
	})
	if err := send("c"); !errors.Is(err, ErrUnknownProducer) {
		t.Fatal(err)
	}
	c.SetFault(nil)
	if err := send("d"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(values(c, "t", 0)); got != "[a b c d]" {
		t.Error(got)
	}
}

// TestRefusedBatchFailsAlone has the second of five batches in flight refused for good.
func TestRefusedBatchFailsAlone(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	var n atomic.Int32
	c.SetFault(func(m proto.Message) fakebroker.Fault {
		if _, ok := m.(*proto.ProduceRequest); ok && n.Add(1) == 2 {
			return fakebroker.Fault{Refuse: &proto.Error{Code: proto.CodeInvalidTimestamp, Text: "given, allowed"}, Delay: 10 * time.Millisecond}
		}
		return fakebroker.Fault{}
	})
	p := producer(t, connect(t, c), ProducerBatchRecords(1))
	var mu sync.Mutex
	var failed []int
	for i := range 8 {
		p.SendAsync(within(t), &Message{Topic: "t", Value: fmt.Append(nil, i)}, func(_ Result, err error) {
			if err != nil {
				mu.Lock()
				failed = append(failed, i)
				mu.Unlock()
				if !errors.Is(err, ErrInvalidTimestamp) {
					t.Error(err)
				}
			}
		})
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if len(failed) != 1 || failed[0] != 1 {
		t.Errorf("failed: %v", failed)
	}
	if got := fmt.Sprint(values(c, "t", 0)); got != "[0 2 3 4 5 6 7]" {
		t.Error(got)
	}
}

func TestTooLargeBatchIsHalved(t *testing.T) {
	for _, codec := range []Compression{CompressionNone, CompressionZstd} {
		t.Run(codec.String(), func(t *testing.T) {
			c := fake(t, 1)
			client := connect(t, c)
			if _, err := client.Admin().CreateTopic(within(t), TopicSpec{Name: "t", Partitions: 1, Config: map[string]string{"max.message.bytes": "2000"}}); err != nil {
				t.Fatal(err)
			}
			p := producer(t, client, ProducerCompression(codec), ProducerBatchRecords(200))
			value := make([]byte, 100)
			var failed atomic.Int32
			for i := range 500 {
				for n := range value {
					value[n] = byte(rand.Uint32())
				}
				copy(value, fmt.Sprintf("%03d", i))
				err := p.SendAsync(within(t), &Message{Topic: "t", Value: value}, func(r Result, err error) {
					if err != nil || r.Offset != int64(i) {
						failed.Add(1)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.Send(within(t), &Message{Topic: "t", Value: bytes.Repeat(fmt.Append(nil, rand.Uint64(), rand.Uint64()), 1), Headers: noise(3000)}); !errors.Is(err, ErrBatchTooLarge) {
				t.Errorf("a message that is too large alone: %v", err)
			}
			if err := p.Flush(within(t)); err != nil {
				t.Fatal(err)
			}
			all := values(c, "t", 0)
			if failed.Load() > 0 || len(all) != 500 {
				t.Fatalf("%v: %d failed, %d stored", codec, failed.Load(), len(all))
			}
			for i, v := range all {
				if v[:3] != fmt.Sprintf("%03d", i) {
					t.Fatalf("offset %d has message %s", i, v[:3])
				}
			}
		})
	}
}

// noise is a header that does not get smaller.
func noise(n int) []Header {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return []Header{{Key: "noise", Value: b}}
}

func TestBufferIsBounded(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	client := connect(t, c)
	for name, options := range map[string][]ProducerOption{
		"bytes":    {ProducerBufferBytes(10_000)},
		"messages": {ProducerBufferMessages(10)},
	} {
		t.Run(name, func(t *testing.T) {
			p := producer(t, client, append(options, ProducerDeliveryTimeout(time.Minute))...)
			refusing := producer(t, client, append(options, ProducerDeliveryTimeout(time.Minute), ProducerBufferBlock(false))...)
			m := &Message{Topic: "t", Value: make([]byte, 950)}
			for _, p := range []*Producer{p, refusing} {
				if _, err := p.Send(within(t), m); err != nil {
					t.Fatal(err)
				}
			}
			c.Node(1).Stall()
			fill := func(p *Producer) (taken int, err error) {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				for err == nil && taken < 100 {
					if err = p.SendAsync(ctx, m, nil); err == nil {
						taken++
					}
				}
				return taken, err
			}
			if taken, err := fill(p); taken != 10 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("took %d messages, then %v", taken, err)
			}
			if taken, err := fill(refusing); taken != 10 || !errors.Is(err, ErrBufferFull) {
				t.Errorf("took %d messages, then %v", taken, err)
			}
			// Room comes back, and one who waits for it gets it.
			waiting := make(chan error)
			go func() { waiting <- p.SendAsync(within(t), m, nil) }()
			until(t, "a sender waits", func() bool { p.buffer.mu.Lock(); defer p.buffer.mu.Unlock(); return p.buffer.waiting == 1 })
			c.Node(1).Resume()
			if err := <-waiting; err != nil {
				t.Error(err)
			}
			for _, p := range []*Producer{p, refusing} {
				if err := p.Close(within(t)); err != nil {
					t.Error(err)
				}
				if bytes, messages := p.Buffered(); bytes != 0 || messages != 0 {
					t.Errorf("%d bytes and %d messages are left", bytes, messages)
				}
			}
		})
	}
}

// TestCloseUnderStalledBroker wants every send reported, and Close back in time.
func TestCloseUnderStalledBroker(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprint("idle ", idle), func(t *testing.T) {
			c := fake(t, 1)
			c.Create("t", 3)
			p := producer(t, connect(t, c))
			if !idle {
				if _, err := p.Send(within(t), &Message{Topic: "t"}); err != nil {
					t.Fatal(err)
				}
			} else if _, err := p.lookup(within(t), "t"); err != nil {
				t.Fatal(err)
			}
			c.Node(1).Stall()
			var results atomic.Int32
			for i := range 100 {
				if err := p.SendAsync(within(t), &Message{Topic: "t", Key: fmt.Append(nil, i)}, func(_ Result, err error) {
					results.Add(1)
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			begun := time.Now()
			err := p.Close(ctx)
			cancel()
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("Close took %v", took)
			}
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "100 messages") {
				t.Errorf("Close: %v", err)
			}
			if n := results.Load(); n != 100 {
				t.Errorf("%d results", n)
			}
			if err := p.SendAsync(context.Background(), &Message{Topic: "t"}, nil); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			c.Node(1).Resume()
		})
	}
}

// A message that Close gives up on says what kept it, as one does whose time is up.
func TestCloseSaysWhatKeptTheMessage(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	var refused atomic.Int32
	c.SetFault(func(m proto.Message) fakebroker.Fault {
		if _, ok := m.(*proto.ProduceRequest); ok {
			refused.Add(1)
			return fakebroker.Fault{Refuse: &proto.Error{Code: proto.CodeStorageFull, Text: "full"}}
		}
		return fakebroker.Fault{}
	})
	p := producer(t, connect(t, c), ProducerRetry(time.Millisecond, 2*time.Millisecond))
	result := make(chan error, 1)
	if err := p.SendAsync(within(t), &Message{Topic: "t"}, func(_ Result, err error) { result <- err }); err != nil {
		t.Fatal(err)
	}
	until(t, "it is refused twice", func() bool { return refused.Load() > 1 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	if err := <-result; !errors.Is(err, ErrClosed) || !errors.Is(err, ErrStorageFull) {
		t.Errorf("the message: %v", err)
	}
}

func TestTopicRecreated(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 2)
	p := producer(t, connect(t, c))
	one := PartitionNumber(1)
	for range 3 {
		if _, err := p.Send(within(t), &Message{Topic: "t", Partition: one}); err != nil {
			t.Fatal(err)
		}
	}
	c.Delete("t")
	c.Create("t", 2)
	if r, err := p.Send(within(t), &Message{Topic: "t", Partition: one}); err != nil || r.Offset != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	// Whether the refusal or the metadata comes first decides whether the topic was
	// forgotten meanwhile, which costs one more id.
	if n := c.Requests(proto.CommandInitProducer); n > 2 {
		t.Errorf("%d producer ids for one namesake", n)
	}
	c.Delete("t")
	if _, err := p.Send(within(t), &Message{Topic: "t", Partition: one}); !errors.Is(err, ErrUnknownTopic) {
		t.Error(err)
	}
	c.Create("t", 1)
	if _, err := p.Send(within(t), &Message{Topic: "t", Partition: one}); !errors.Is(err, ErrInvalidPartition) {
		t.Error(err)
	}
	if _, err := p.Send(within(t), &Message{Topic: "t"}); err != nil {
		t.Error(err)
	}
}

// A topic that was forgotten and is found again has queues of its own, which number from 0. Under the same producer id the
// broker would take their batches for those that it has, and acknowledge what it does not store.
func TestForgottenTopicIsFoundAgain(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	p := producer(t, connect(t, c))
	for i := range 6 {
		if i%2 == 0 && i > 0 {
			p.forget((*p.topics.Load())["t"])
		}
		r, err := p.Send(within(t), &Message{Topic: "t", Value: []byte{byte('0' + i)}})
		if err != nil || r.Offset != int64(i) || r.Duplicate {
			t.Errorf("message %d: %+v, %v", i, r, err)
		}
	}
	if got := fmt.Sprint(values(c, "t", 0)); got != "[0 1 2 3 4 5]" {
		t.Error(got)
	}
}

// The metadata may tell of a namesake before the broker's refusal of the old topic's id comes: the topic is not unknown then.
func TestNamesakeIsKnownBeforeTheRefusal(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	client := connect(t, c)
	p := producer(t, client)
	if _, err := p.Send(within(t), &Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	c.Delete("t")
	c.Create("t", 1)
	topic := (*p.topics.Load())["t"]
	was := topic.meta.Load().ID
	if _, err := client.cluster.Refresh(within(t), "t"); err != nil {
		t.Fatal(err)
	}
	p.checkTopic(topic, was)
	for checking := true; checking; runtime.Gosched() {
		topic.mu.Lock()
		checking = topic.checking
		topic.mu.Unlock()
	}
	if (*p.topics.Load())["t"] != topic {
		t.Error("the topic was forgotten")
	}
	if r, err := p.Send(within(t), &Message{Topic: "t"}); err != nil || r.Offset != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPartitionsGrow(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	p := producer(t, connect(t, c))
	if _, err := p.Send(within(t), &Message{Topic: "t", Partition: PartitionNumber(1)}); !errors.Is(err, ErrInvalidPartition) {
		t.Error(err)
	}
	c.Grow("t", 2)
	until(t, "partition 1 is known", func() bool {
		_, err := p.Send(within(t), &Message{Topic: "t", Partition: PartitionNumber(1)})
		return err == nil
	})
}

func TestLeaderMoves(t *testing.T) {
	c := fake(t, 3)
	c.Create("t", 1)
	p := producer(t, connect(t, c))
	for i := range 30 {
		if _, err := p.Send(within(t), &Message{Topic: "t", Value: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			c.MoveLeader("t", 0, uint32(i%3+1))
			c.MoveLeader("t", 0, uint32((i+1)%3+1))
		}
	}
	if n := len(values(c, "t", 0)); n != 30 {
		t.Errorf("%d records", n)
	}
}

func TestRefusedBeforeSending(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 2)
	p := producer(t, connect(t, c))
	for want, m := range map[proto.Code]*Message{
		ErrInvalidRequest:   {Topic: "t", Headers: []Header{{Key: "mq-x"}}},
		ErrInvalidName:      {},
		ErrBatchTooLarge:    {Topic: "t", Value: make([]byte, 2<<20)},
		ErrInvalidTimestamp: {Topic: "t", Timestamp: time.UnixMilli(-5)},
		ErrInvalidPartition: {Topic: "t", Partition: PartitionNumber(2)},
		ErrUnknownTopic:     {Topic: "none"},
	} {
		err := p.SendAsync(within(t), m, func(Result, error) { t.Errorf("%v: taken", want) })
		if !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
	}
	if n := c.Requests(proto.CommandProduce); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestSendAsyncAllocates(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	p := producer(t, connect(t, c))
	m := &Message{Topic: "t", Key: []byte("key"), Value: make([]byte, 256), Headers: []Header{{"a", []byte("b")}}}
	ctx := context.Background()
	done := func(Result, error) {}
	for range 10_000 {
		p.SendAsync(ctx, m, done)
	}
	p.Flush(within(t))
	c.Node(1).Stall() // what is allocated for a batch is not counted here
	if n := testing.AllocsPerRun(400, func() { p.SendAsync(ctx, m, done) }); n > 0 {
		t.Errorf("%v allocations per message", n)
	}
	c.Node(1).Resume()
	if err := p.Close(within(t)); err != nil {
		t.Error(err)
	}
}

// TestFlushWaitsForCallbacks checks that what was taken before Flush is told before it returns.
func TestFlushWaitsForCallbacks(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 2)
	p := producer(t, connect(t, c), ProducerLinger(10*time.Second))
	var results atomic.Int32
	for i := range 50 {
		if err := p.SendAsync(within(t), &Message{Topic: "t", Key: fmt.Append(nil, i)}, func(Result, error) { results.Add(1) }); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := p.Flush(within(t)); err != nil {
				t.Fatal(err)
			}
			if n := results.Load(); n != int32(i+1) {
				t.Fatalf("%d results after message %d", n, i)
			}
		}
	}
}

func TestProducerOptionFaultsAllAtOnce(t *testing.T) {
	c := fake(t, 1)
	_, err := connect(t, c).NewProducer(ProducerInFlight(6), ProducerBatchBytes(0), ProducerLinger(-1), ProducerCompression(9))
	for _, part := range []string{"ProducerInFlight 6: 1 to 5", "ProducerBatchBytes 0", "ProducerLinger -1ns", "ProducerCompression 9"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
}

// TestRefusalsKeepTheProducerID has a batch refused whose followers are then out of step: they are sent again as they
// were, under the id they had.
func TestRefusalsKeepTheProducerID(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	var n atomic.Int32
	c.SetFault(func(m proto.Message) fakebroker.Fault {
		if _, ok := m.(*proto.ProduceRequest); ok && n.Add(1)%4 == 1 {
			return fakebroker.Fault{Refuse: &proto.Error{Code: proto.CodeOverloaded}, Delay: 2 * time.Millisecond}
		}
		return fakebroker.Fault{}
	})
	p := producer(t, connect(t, c), ProducerBatchRecords(1))
	for i := range 40 {
		if err := p.SendAsync(within(t), &Message{Topic: "t", Value: fmt.Append(nil, i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if all := values(c, "t", 0); len(all) != 40 || c.Requests(proto.CommandInitProducer) != 1 {
		t.Errorf("%d records, %d producer ids", len(all), c.Requests(proto.CommandInitProducer))
	}
}

// TestBrokerStillRemembers has a batch stored and answered with TIMED_OUT, and its retries refused while others could be
// sent: were they, the broker would no longer remember where the first one lies.
func TestBrokerStillRemembers(t *testing.T) {
	c := fake(t, 1)
	c.Create("t", 1)
	var tries atomic.Int32
	c.SetFault(func(m proto.Message) fakebroker.Fault {
		r, ok := m.(*proto.ProduceRequest)
		if !ok || proto.Batch(r.Batch).BaseSequence() != 0 {
			return fakebroker.Fault{}
		}
		switch tries.Add(1) {
		case 1:
			return fakebroker.Fault{Delay: 5 * time.Millisecond, Disown: &proto.Error{Code: proto.CodeTimedOut}}
		case 2, 3, 4:
			return fakebroker.Fault{Refuse: &proto.Error{Code: proto.CodeOverloaded}}
		}
		return fakebroker.Fault{}
	})
	p := producer(t, connect(t, c), ProducerBatchRecords(1))
	for i := range 30 {
		err := p.SendAsync(within(t), &Message{Topic: "t"}, func(r Result, err error) {
			if err != nil || r.Offset != int64(i) {
				t.Errorf("message %d: %+v, %v", i, r, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if tries.Load() != 5 {
		t.Errorf("%d tries", tries.Load())
	}
}
