package pulsemq

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/fakebroker"
)

// testTime bounds what a test waits for: it is only reached when something is broken.
const testTime = 20 * time.Second

// fake is a cluster in memory. The test fails if anything of the client still runs when it is over.
func fake(t testing.TB, nodes int) *fakebroker.Cluster {
	t.Helper()
	t.Cleanup(func() { noneRuns(t) })
	c := fakebroker.New(nodes)
	t.Cleanup(c.Close)
	return c
}

// noneRuns waits until no goroutine of this module is left but the test's own.
func noneRuns(t testing.TB) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		var left []string
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "pulsemq/clients/go") && !strings.Contains(g, "testing.tRunner") && !strings.Contains(g, "testing.(*B)") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines are left:\n%s", len(left), left[0])
			return
		}
	}
}

// connect is a client with short waits.
func connect(t testing.TB, c *fakebroker.Cluster, options ...ClientOption) *Client {
	t.Helper()
	options = append([]ClientOption{ClientReconnect(time.Millisecond, 10*time.Millisecond)}, options...)
	client, err := Connect(context.Background(), c.Addresses(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func producer(t testing.TB, client *Client, options ...ProducerOption) *Producer {
	t.Helper()
	options = append([]ProducerOption{ProducerRetry(time.Millisecond, 10*time.Millisecond)}, options...)
	p, err := client.NewProducer(options...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func consumer(t testing.TB, client *Client, options ...ConsumerOption) *Consumer {
	t.Helper()
	options = append([]ConsumerOption{ConsumerRetry(time.Millisecond, 10*time.Millisecond)}, options...)
	k, err := client.NewConsumer(options...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// within is a context that ends when something is broken.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// until waits for a condition.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTime); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
