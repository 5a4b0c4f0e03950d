package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// anyStagger is how long one broker may take to accept before the next one is tried beside it.
const anyStagger = 250 * time.Millisecond

// Cluster is the brokers and topics. It is safe for use by many goroutines.
type Cluster struct {
	options     *conn.Options
	seeds       []string
	backoff     conn.Backoff
	metadataAge time.Duration

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	id       string        // the cluster's
	epoch    uint64        // of the newest metadata seen
	limits   *proto.Limits // of the broker that was connected last; nil before
	brokers  map[uint32]proto.MetadataBroker
	links    map[linkKey]*Link
	conns    map[*conn.Conn]struct{} // those that live or have just ended
	topics   map[string]*Topic
	lookups  map[string]*lookup
	watchers map[int]func(*Topic)
	watchID  int
}

// linkKey is a broker by its id, or a seed by its address, in a role.
type linkKey struct {
	role Role
	node uint32
	seed string
}

// New makes a cluster that has not connected yet.
func New(seeds []string, backoff conn.Backoff, metadataAge time.Duration, o *conn.Options) *Cluster {
	ctx, cancel := context.WithCancel(context.Background())
	return &Cluster{
		options:     o,
		seeds:       seeds,
		backoff:     backoff,
		metadataAge: metadataAge,
		ctx:         ctx,
		cancel:      cancel,
		brokers:     map[uint32]proto.MetadataBroker{},
		links:       map[linkKey]*Link{},
		conns:       map[*conn.Conn]struct{}{},
		topics:      map[string]*Topic{},
		lookups:     map[string]*lookup{},
		watchers:    map[int]func(*Topic){},
	}
}

// Close ends every connection and waits for everything that runs. It must not be called from a request's Done.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.goroutines.Wait()
	c.mu.Lock()
	conns := maps.Clone(c.conns)
	c.mu.Unlock()
	for live := range conns {
		live.Close()
	}
}

// goroutine runs f with a context that ends with the cluster; false when it has ended.
func (c *Cluster) goroutine(f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.goroutines.Go(func() { f(c.ctx) })
	return true
}

// Link is the way to a broker.
func (c *Cluster) Link(role Role, node uint32) *Link {
	return c.link(linkKey{role: role, node: node})
}

func (c *Cluster) link(key linkKey) *Link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[key]
	if l == nil {
		l = &Link{cluster: c, role: key.role, node: key.node, seed: key.seed}
		c.links[key] = l
	}
	return l
}

// address is where a broker listens, as the newest metadata says.
func (c *Cluster) address(node uint32) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.brokers[node]
	if !ok {
		return "", fmt.Errorf("the address of broker %d is not known", node)
	}
	return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), nil
}

// connected is told of a new connection; an error refuses it.
func (c *Cluster) connected(l *Link, new *conn.Conn) error {
	hello := new.Hello
	c.mu.Lock()
	for old := range c.conns {
		if old.Err() != nil {
			delete(c.conns, old)
		}
	}
	if c.closed {
		c.mu.Unlock()
		return conn.ErrClosed
	}
	if c.id != "" && c.id != hello.ClusterID {
		if len(c.conns) > 0 {
			c.mu.Unlock()
			return fmt.Errorf("%s belongs to cluster %q, the other brokers to %q: the broker list names two clusters", new.Address, hello.ClusterID, c.id)
		}
		// Nobody of the old cluster is left: it has been set up anew, and what was known of it means nothing.
		c.options.Logger.Warn("the cluster has been replaced", "was", c.id, "is", hello.ClusterID)
		c.epoch = 0
		clear(c.topics)
		clear(c.brokers)
	}
	if l.node != 0 && l.node != hello.NodeID {
		c.mu.Unlock()
		return fmt.Errorf("%s is broker %d and not %d", new.Address, hello.NodeID, l.node)
	}
	c.id = hello.ClusterID
	c.limits = &hello.Limits
	c.conns[new] = struct{}{}
	c.mu.Unlock()
	if l.node == 0 {
		c.Link(l.role, hello.NodeID).adopt(new)
	}
	return nil
}

// Any is a connection to some broker, made if there is none. It tries until ctx ends.
func (c *Cluster) Any(ctx context.Context) (*conn.Conn, error) {
	var lastErr error
	for {
		links := c.candidates()
		for _, l := range links {
			if live := l.Current(); live != nil {
				return live, nil
			}
		}
		live, err := first(ctx, links)
		if err == nil {
			return live, nil
		}
		if errors.Is(err, conn.ErrClosed) {
			return nil, err
		}
		if ctx.Err() != nil {
			if lastErr == nil {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", ctx.Err(), lastErr)
		}
		lastErr = err
	}
}

// candidates are the links that Any may use: connected ones first, then brokers and seeds in random order.
func (c *Cluster) candidates() []*Link {
	c.mu.Lock()
	keys := make([]linkKey, 0, len(c.brokers)+len(c.seeds))
	known := map[string]bool{}
	for node, b := range c.brokers {
		keys = append(keys, linkKey{role: RoleProduce, node: node})
		known[net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))] = true
	}
	for _, seed := range c.seeds {
		if !known[seed] {
			keys = append(keys, linkKey{role: RoleProduce, seed: seed})
		}
	}
	c.mu.Unlock()
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	links := make([]*Link, len(keys))
	for i, key := range keys {
		links[i] = c.link(key)
	}
	return links
}

// first is the connection of the link that is quickest. The links are started one after the other, each when the one
// before has failed or taken a while.
func first(ctx context.Context, links []*Link) (*conn.Conn, error) {
	type outcome struct {
		conn *conn.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make(chan outcome, len(links))
	started, failed := 0, 0
	start := func() {
		l := links[started]
		started++
		go func() {
			live, err := l.Get(ctx)
			outcomes <- outcome{live, err}
		}()
	}
	var errs []error
	for failed < len(links) {
		var stagger <-chan time.Time
		if started == failed {
			start()
		}
		if started < len(links) {
			stagger = time.After(anyStagger)
		}
		select {
		case o := <-outcomes:
			if o.err == nil {
				return o.conn, nil
			}
			errs = append(errs, o.err)
			failed++
		case <-stagger:
			start()
		}
	}
	return nil, errors.Join(errs...)
}

// Limits are what the broker that was connected last accepts; nil before there was one.
func (c *Cluster) Limits() *proto.Limits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limits
}
