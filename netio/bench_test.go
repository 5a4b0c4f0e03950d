package netio

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// BenchmarkServerProduce measures requests through sockets, reactor and rings to
// a shard that answers at once, with the load client in the same process.
func BenchmarkServerProduce(b *testing.B) {
	for _, x := range []struct{ connections, inFlight, valueBytes int }{{1, 1, 256}, {8, 32, 256}, {8, 8, 200 << 10}} {
		b.Run(fmt.Sprintf("connections=%d/flight=%d/bytes=%d", x.connections, x.inFlight, x.valueBytes), func(b *testing.B) {
			c := newQuietCluster(b, testConfig(b))
			var stream []byte
			for i := range uint64(x.inFlight) {
				stream = proto.AppendFrame(stream, 100+i, produce(0, testBatch(b, 1, x.valueBytes)))
			}
			clients := make([]*client, x.connections)
			for i := range clients {
				clients[i] = c.connect(b)
				_ = clients[i].conn.SetDeadline(time.Time{})
			}
			rounds := max(1, b.N/(x.connections*x.inFlight))
			b.SetBytes(int64(x.valueBytes))
			b.ResetTimer()
			var all sync.WaitGroup
			for _, cl := range clients {
				all.Add(1)
				go func() {
					defer all.Done()
					answer := make([]byte, x.inFlight*c.answerBytes)
					for range rounds {
						if _, err := cl.conn.Write(stream); err != nil {
							b.Error(err)
							return
						}
						if _, err := io.ReadFull(cl.conn, answer); err != nil {
							b.Error(err)
							return
						}
					}
				}()
			}
			all.Wait()
			b.ReportMetric(float64(rounds*x.connections*x.inFlight)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
