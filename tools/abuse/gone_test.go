package abuse

import (
	"net"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/proto"
)

// silent clients say HELLO and then nothing, not even to a PING: each is closed with a reason when the idle time is over.
func (b *broker) silent(t *testing.T) {
	end := b.end(t, "scapegoat")
	var all []net.Conn
	for i := range pick(50, 500) {
		c := b.dial(t)
		if i%2 == 0 { // with a request that waits for data
			write(t, c, proto.AppendFrame(nil, 10, &proto.FetchRequest{TopicID: b.topic, LeaderEpoch: -1, LastEpoch: -1, Offset: end, MinBytes: 1, MaxWaitMs: 60_000}))
		}
		all = append(all, c)
	}
	began := time.Now()
	for _, c := range all {
		last, err := closed(c, idleTimeout+slack)
		if err != nil || last == nil || last.Code != proto.CodeConnectionIdle {
			t.Fatalf("a silent client: %v, %v", last, err)
		}
	}
	t.Logf("%d silent clients were closed within %v", len(all), time.Since(began).Round(time.Millisecond))
}
