package cluster

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// lookup is a question about one topic that is on its way, and that any number of callers wait for.
type lookup struct {
	done  chan struct{}
	topic *Topic
	err   error
}

// Topic is what is known of a topic; the broker is asked when nothing is. Knowledge that is old is returned and
// refreshed beside.
func (c *Cluster) Topic(ctx context.Context, name string) (*Topic, error) {
	if t := c.Cached(name); t != nil {
		return t, nil
	}
	return c.Refresh(ctx, name)
}

// Cached is what is known of a topic, nil when nothing is. Old knowledge is refreshed beside.
func (c *Cluster) Cached(name string) *Topic {
	c.mu.Lock()
	t := c.topics[name]
	c.mu.Unlock()
	if t != nil && time.Since(t.Fetched) > c.metadataAge {
		c.lookup(name)
	}
	return t
}

// Refresh asks for a topic, together with everyone who does so at the same time. It asks until an answer comes or ctx
// ends; the answer may be a refusal.
func (c *Cluster) Refresh(ctx context.Context, name string) (*Topic, error) {
	l := c.lookup(name)
	if l == nil {
		return nil, conn.ErrClosed
	}
	select {
	case <-l.done:
		return l.topic, l.err
	case <-ctx.Done():
		// What keeps the answer is worth more than that time is up.
		return nil, errors.Join(ctx.Err(), c.unreachable())
	}
}

// RefreshLater asks for a topic without waiting; watchers hear of it.
func (c *Cluster) RefreshLater(name string) { c.lookup(name) }

// unreachable is why no broker answers; nil when one is connected or nothing has failed yet.
func (c *Cluster) unreachable() error {
	var last error
	for _, l := range c.candidates() {
		l.mu.Lock()
		live, err := l.currentLocked(), l.lastErr
		l.mu.Unlock()
		if live != nil {
			return nil
		}
		if err != nil {
			last = err
		}
	}
	if last == nil {
		return nil
	}
	return errors.Join(ErrUnreachable, last)
}

// lookup joins the question about a topic that is on its way or asks it; nil when the cluster is closed.
func (c *Cluster) lookup(name string) *lookup {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lookups[name]; l != nil {
		return l
	}
	if c.closed {
		return nil
	}
	l := &lookup{done: make(chan struct{})}
	c.lookups[name] = l
	c.goroutines.Go(func() {
		l.topic, l.err = c.fetch(c.ctx, name)
		c.mu.Lock()
		delete(c.lookups, name)
		c.mu.Unlock()
		close(l.done)
	})
	return l
}

// fetch asks brokers until one answers.
func (c *Cluster) fetch(ctx context.Context, name string) (*Topic, error) {
	for failures := 1; ; failures++ {
		t, err := c.ask(ctx, name)
		if ctx.Err() != nil {
			return nil, conn.ErrClosed
		}
		// Only a broker's own word that repeating is useless ends it: whoever waits has a deadline of their own.
		var code proto.Code
		if err == nil || errors.Is(err, conn.ErrClosed) || errors.As(err, &code) && !code.Retriable() {
			return t, err
		}
		if sleep(ctx, c.backoff.After(failures)) != nil {
			return nil, conn.ErrClosed
		}
	}
}

func (c *Cluster) ask(ctx context.Context, name string) (*Topic, error) {
	live, err := c.Any(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout)
	defer cancel()
	response, err := conn.Call[proto.MetadataResponse](ctx, live,
		&proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{name}})
	if err != nil {
		return nil, err
	}
	c.Learn(response)
	if len(response.Topics) != 1 {
		return nil, proto.CodeInternal.Errorf("the broker answered a question about topic %q with %d topics", name, len(response.Topics))
	}
	answer := &response.Topics[0]
	if err := answer.Error.Err(); err != nil {
		return nil, err
	}
	if t := c.Cached(name); t != nil {
		return t, nil
	}
	return nil, proto.CodeInternal.Errorf("the broker answered a question about topic %q with topic %q of cluster %q, which tells nothing of it",
		name, answer.Name, response.ClusterID)
}

// Learn takes in a METADATA answer. One that is older than what is known is dropped.
func (c *Cluster) Learn(m *proto.MetadataResponse) {
	now := time.Now()
	c.mu.Lock()
	var news []*Topic
	if c.id == "" || c.id == m.ClusterID {
		if m.MetadataEpoch >= c.epoch {
			c.epoch = m.MetadataEpoch
			for _, b := range m.Brokers {
				c.brokers[b.NodeID] = b
			}
		}
		for i := range m.Topics {
			t := &m.Topics[i]
			old := c.topics[t.Name]
			switch {
			case old != nil && m.MetadataEpoch < old.Epoch || t.Name == "":
			case t.Error.Code == proto.CodeUnknownTopic:
				delete(c.topics, t.Name)
			case !t.Error.Failed():
				fresh := newTopic(t, m.MetadataEpoch, now)
				if old != nil && old.ID == fresh.ID {
					fresh.keepNewerLeaders(old)
				}
				c.topics[t.Name] = fresh
				news = append(news, fresh)
			}
		}
	}
	watchers := make([]func(*Topic), 0, len(c.watchers))
	for _, w := range c.watchers {
		watchers = append(watchers, w)
	}
	c.mu.Unlock()
	for _, t := range news {
		for _, w := range watchers {
			w(t)
		}
	}
}

// keepNewerLeaders keeps what a refusal has said since the metadata was made.
func (t *Topic) keepNewerLeaders(old *Topic) {
	for i := range min(len(t.Partitions), len(old.Partitions)) {
		if old.Partitions[i].LeaderEpoch > t.Partitions[i].LeaderEpoch {
			t.Partitions[i] = old.Partitions[i]
		}
	}
}

// LearnLeader takes in the leader that a refusal names; false when it names none that is news.
func (c *Cluster) LearnLeader(topic string, id [16]byte, partition uint32, hint *proto.LeaderHint) bool {
	if hint == nil || hint.NodeID == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[topic]
	if t == nil || t.ID != id || int(partition) >= len(t.Partitions) || t.Partitions[partition].LeaderEpoch >= hint.LeaderEpoch {
		return false
	}
	if host, port, err := net.SplitHostPort(hint.Address); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			c.brokers[hint.NodeID] = proto.MetadataBroker{NodeID: hint.NodeID, Host: host, Port: uint16(n)}
		}
	}
	if _, known := c.brokers[hint.NodeID]; !known {
		return false
	}
	c.topics[topic] = t.withLeader(partition, hint.NodeID, hint.LeaderEpoch)
	return true
}

// Watch calls f with each topic that is learned, from whatever goroutine learns it; f must not block. The function
// returned ends it.
func (c *Cluster) Watch(f func(*Topic)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.watchID
	c.watchID++
	c.watchers[id] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, id)
	}
}

// ID is the cluster's id; empty before the first connection.
func (c *Cluster) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}
