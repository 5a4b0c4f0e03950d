package abuse

import (
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// idle opens connections that never say anything, and waits until the broker has closed them all with a reason. It says
// what such a connection costs.
func (b *broker) idle(t *testing.T) {
	count := pick(1500, 20_000)
	raiseDescriptors(uint64(count) + 2000)
	before := b.rss()
	all := make([]net.Conn, 0, count)
	began := time.Now()
	for range count {
		c, err := net.DialTimeout("tcp", b.process.Address, answerWait)
		if err != nil {
			t.Fatalf("after %d connections: %v", len(all), err)
		}
		defer c.Close()
		all = append(all, c)
	}
	took, most := time.Since(began), b.descriptors()
	t.Logf("%d connections in %v, %d descriptors open at their most, %d bytes of memory for each", count, took.Round(time.Millisecond), most, max(0, b.rss()-before)/int64(count))
	for i, c := range all {
		last, err := closed(c, handshakeTimeout+slack)
		if err != nil {
			t.Fatalf("connection %d of %d without HELLO is still open: %v", i, count, err)
		}
		if last != nil && last.Code != proto.CodeHandshakeRequired && last.Code != proto.CodeTooManyConnections {
			t.Fatalf("connection %d was closed with %v", i, last)
		}
	}
}

// raiseDescriptors lets this process have more, where it may.
func raiseDescriptors(n uint64) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Cur < n {
		limit.Cur, limit.Max = n, max(limit.Max, n)
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

// flood opens and closes connections as fast as it can, some with a HELLO.
func (b *broker) flood(t *testing.T) {
	deadline := time.Now().Add(time.Duration(pick(2, 20)) * time.Second)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := 0; time.Now().Before(deadline); i++ {
				c, err := net.DialTimeout("tcp", b.process.Address, answerWait)
				if err != nil {
					t.Error(err)
					return
				}
				if (i+worker)%2 == 0 {
					_, _ = c.Write(helloFrame)
				}
				if i%2000 < 1000 {
					reset(c) // without this the port stays taken for a minute
				} else {
					_ = c.(*net.TCPConn).SetLinger(0)
					c.Close()
				}
			}
		})
	}
	all.Wait()
}
