package pulsemq

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
	"github.com/pulsemq/pulsemq/proto"
)

// sink is a broker that answers PRODUCE and stores nothing, so that a benchmark measures the client. Everything else goes
// to a fake broker, whose only node it pretends to be.
func sink(b *testing.B, c *fakebroker.Cluster) ClientOption {
	return ClientDial(func(ctx context.Context, network, address string) (net.Conn, error) {
		back, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		front, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		go func() {
			defer front.Close()
			nc, err := front.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(nc, back)
				nc.Close()
			}()
			defer back.Close()
			answer(nc, back)
		}()
		return (&net.Dialer{}).DialContext(ctx, "tcp", front.Addr().String())
	})
}

// answer answers PRODUCE frames and passes the others on.
func answer(nc, back net.Conn) {
	buf := make([]byte, 4<<20)
	have := 0
	var offset int64
	var out []byte
	for {
		n, err := nc.Read(buf[have:])
		if err != nil {
			return
		}
		have += n
		at := 0
		out = out[:0]
		for {
			h, ok, err := proto.DecodeFrameHeader(buf[at:have], 4<<20)
			if err != nil || !ok || have-at < h.FrameBytes() {
				break
			}
			frame := buf[at : at+h.FrameBytes()]
			at += len(frame)
			if h.Command != proto.CommandProduce {
				back.Write(frame)
				continue
			}
			batch := proto.Batch(frame[proto.FrameHeaderBytes+30:])
			out = proto.AppendFrame(out, h.RequestID, &proto.ProduceResponse{BaseOffset: offset, AppendTimeMs: -1, Durability: proto.DurabilitySync})
			offset += int64(batch.Count())
		}
		have = copy(buf, buf[at:have])
		if len(out) > 0 {
			nc.Write(out)
		}
	}
}

// BenchmarkSendAsync sends 256-byte messages to a broker that costs next to nothing but shares the processors.
func BenchmarkSendAsync(b *testing.B) {
	for _, partitions := range []int{1, 16} {
		for _, keyed := range []bool{false, true} {
			b.Run(fmt.Sprintf("partitions=%d/keyed=%v", partitions, keyed), func(b *testing.B) {
				c := fakebroker.New(1)
				defer c.Close()
				c.Create("t", partitions)
				client := connect(b, c, sink(b, c))
				p := producer(b, client)
				var failed atomic.Int64
				done := func(_ Result, err error) {
					if err != nil {
						failed.Add(1)
					}
				}
				ctx := context.Background()
				m := &Message{Topic: "t", Value: make([]byte, 256)}
				key := []byte("key-00000000")
				b.SetBytes(256)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if keyed {
						for n := range 4 {
							key[len(key)-1-n] = byte('0' + i>>(4*n)&15)
						}
						m.Key = key
					}
					if err := p.SendAsync(ctx, m, done); err != nil {
						b.Fatal(err)
					}
				}
				if err := p.Flush(ctx); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
				p.Close(ctx)
				if n := failed.Load(); n > 0 {
					b.Errorf("%d failed", n)
				}
			})
		}
	}
}

// BenchmarkSend sends one message after the other.
func BenchmarkSend(b *testing.B) {
	c := fakebroker.New(1)
	defer c.Close()
	c.Create("t", 1)
	p := producer(b, connect(b, c, sink(b, c)))
	m := &Message{Topic: "t", Value: make([]byte, 256)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Send(context.Background(), m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPoll reads 256-byte records that a fake broker pushes.
func BenchmarkPoll(b *testing.B) {
	for name, mode := range modes {
		b.Run(name, func(b *testing.B) {
			c := fakebroker.New(1)
			defer c.Close()
			c.Create("t", 1)
			values := make([]string, 1000)
			for i := range values {
				values[i] = string(make([]byte, 256))
			}
			for range 100 {
				store(c, "t", 0, 1, CompressionNone, values...)
			}
			k := consumer(b, connect(b, c), mode)
			b.SetBytes(256)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				if err := k.AssignTopic(context.Background(), "t", StartEarliest()); err != nil {
					b.Fatal(err)
				}
				for r := 0; r < 100_000 && n < b.N; {
					records, err := k.Poll(context.Background())
					if err != nil {
						b.Fatal(err)
					}
					r += len(records)
					n += len(records)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
