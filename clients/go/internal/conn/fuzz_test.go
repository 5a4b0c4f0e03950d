package conn

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// FuzzParseAddresses reads any broker list. What comes out reads as itself.
func FuzzParseAddresses(f *testing.F) {
	for _, list := range []string{"mq://a:1,b:2", "MQ://[::1]:9090/", "::1", "localhost", "a:0", "a,,b", "http://a", "[::1%eth0]:1", "a:99999", "mq://user@host:1", "\x00:1", "é:1"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		all, err := ParseAddresses(list)
		if err != nil {
			return
		}
		if len(all) == 0 {
			t.Fatal("no address and no error")
		}
		for _, address := range all {
			if _, _, err := net.SplitHostPort(address); err != nil {
				t.Fatalf("%q in %q: %v", address, list, err)
			}
			again, err := ParseAddresses(address)
			if err != nil || len(again) != 1 || again[0] != address {
				t.Fatalf("%q reads as %q, %v", address, again, err)
			}
		}
	})
}

// FuzzConn has a broker answer a handshake, or requests that are under way, with any
// bytes: the connection ends, and every request is told exactly once at its end.
func FuzzConn(f *testing.F) {
	hello := proto.AppendFrame(nil, 1, &proto.HelloResponse{Magic: proto.Magic, ClusterID: "c", NodeID: 1, WindowBytes: 1 << 20, WindowRequests: 10,
		Limits: proto.Limits{FrameBytesMax: 1 << 20}, Commands: commands()})
	f.Add(false, hello)
	f.Add(false, proto.AppendFrame(nil, 1, proto.CodeTooManyConnections.Errorf("no")))
	f.Add(true, proto.AppendFrame(nil, 2, &proto.MetadataResponse{}))
	f.Add(true, proto.AppendFrame(nil, 3, proto.CodeUnknownTopic.Errorf("no")))
	f.Add(true, proto.AppendFrame(nil, 0, proto.CodeShuttingDown.Errorf("no")))
	f.Add(true, proto.AppendFrame(nil, proto.ServerIDBit|1, &proto.PingRequest{Opaque: 1}))
	f.Add(true, proto.AppendFrame(nil, proto.ServerIDBit|2, &proto.CreditPush{WindowBytes: 1 << 62, WindowRequests: 1 << 31}))
	f.Add(true, proto.AppendFrame(nil, 2, &proto.FetchResponse{Batches: []byte{1}, More: true}))
	f.Fuzz(func(t *testing.T, greeted bool, b []byte) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go func() {
			go io.Copy(io.Discard, far)
			if greeted {
				far.Write(hello)
			}
			far.Write(b)
			far.Close()
		}()
		c, err := Dial(context.Background(), "peer:1", &Options{DialTimeout: 5 * time.Second, RequestTimeout: 10 * time.Second, Keepalive: time.Minute,
			Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return
		}
		defer c.Close()
		const requests = 3
		ended := make(chan error, 100)
		started := 0
		for range requests {
			r := &Request{Message: &proto.MetadataRequest{}, Done: func(payload []byte, err error) bool {
				var m proto.MetadataResponse
				if err == nil {
					err = m.Decode(payload)
				}
				ended <- err
				return false
			}}
			if c.Start(r) == nil {
				started++
			}
		}
		for range started {
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("a request was never told")
			}
		}
		select {
		case <-c.Closed():
		case <-time.After(20 * time.Second):
			t.Fatal("the connection goes on behind its end")
		}
		if len(ended) > 0 {
			t.Fatal("a request was told twice")
		}
	})
}
