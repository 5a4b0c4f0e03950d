package abuse

import (
	"context"
	"testing"
)

// TestAbuse runs every case against one broker. The numbers are those of the list of faults that the names belong to.
func TestAbuse(t *testing.T) {
	b := startBroker(t)
	n := newNeighbour(t, b)
	before := b.descriptors()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go b.watch(ctx)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"19-silent-client", b.silent},
		{"19-slow-reader", b.gorge},
		{"19-vanished-client", b.blackhole},
		{"20-reset-at-every-byte", b.resets},
		{"20-reset-in-flight", b.inFlight},
		{"20-garbage", b.garbage},
		{"20-lengths", b.lengths},
		{"20-unknown-command-and-version", b.unknown},
		{"21-truncated-at-every-byte", b.truncated},
		{"21-counts-and-varints", b.numbers},
		{"21-small-request-large-answer", b.small},
		{"22-slow-loris", b.drip},
		{"22-idle-connections", b.idle},
		{"22-connection-flood", b.flood},
		{"23-larger-than-the-fetch-limit", b.tooLarge},
		{"24-five-in-flight", b.fiveInFlight},
		{"25-names", b.names},
		{"26-decompression-bombs", b.bombs},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.during(t, func() { c.run(t) })
			b.check(t)
			t.Logf("%d MiB resident at most", b.rssMost.Swap(0)>>20)
		})
		if b.process.Alive() != nil {
			t.FailNow()
		}
	}
	t.Run("afterwards", func(t *testing.T) {
		b.calm(t, before)
		n.verify(t, b)
		b.outside(t)
		b.check(t)
		if err := b.process.Terminate(); err != nil {
			t.Error(err)
		}
	})
}
