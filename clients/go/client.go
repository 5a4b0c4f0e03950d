package pulsemq

import (
	"context"
	"fmt"
	"sync"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
)

// Client is a connection to a cluster: what it knows of the brokers, topics and leaders, and the connections that its
// producers, consumers and Admin share. It is safe for use by many goroutines; a program needs one.
type Client struct {
	config  clientConfig
	cluster *cluster.Cluster

	mu     sync.Mutex
	closed bool
	users  map[user]struct{}
}

// user is a producer or consumer, which ends with its client.
type user interface{ abandon() }

// Connect finds the cluster. brokers is mq://host:port,host:port or the list alone; an IPv6 address is written
// [::1]:9090; without a port it is 9090. Any broker of the cluster will do, the others are learned from it. Names are
// resolved again for each attempt, and every address of a name is tried.
//
// Connect returns once a broker has answered, or when ctx ends, or the dial timeout for a ctx without a deadline: the
// error is ErrUnreachable with what failed. With ClientLazy it returns at once, and only its arguments can fail.
func Connect(ctx context.Context, brokers string, options ...ClientOption) (*Client, error) {
	config := clientConfigDefault()
	for _, option := range options {
		option(&config)
	}
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("pulsemq: %w", err)
	}
	seeds, err := conn.ParseAddresses(brokers)
	if err != nil {
		return nil, fmt.Errorf("pulsemq: %w", err)
	}
	c := &Client{
		config: config,
		users:  map[user]struct{}{},
		cluster: cluster.New(seeds, conn.Backoff{Min: config.reconnectMin, Max: config.reconnectMax}, config.metadataAge, &conn.Options{
			ClientName:     config.name,
			ClientVersion:  config.version,
			DialTimeout:    config.dialTimeout,
			RequestTimeout: config.requestTimeout,
			Keepalive:      config.keepalive,
			Dial:           config.dial,
			Logger:         config.logger,
		}),
	}
	if config.lazy {
		return c, nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, config.dialTimeout)
		defer cancel()
	}
	if _, err := c.cluster.Any(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ClusterID names the cluster; it is empty before the first connection.
func (c *Client) ClusterID() string { return c.cluster.ID() }

// Close ends every connection, and what is still open of this client's producers and consumers: messages without a
// result get ErrClosed as theirs. Close the producers first to have them sent. It must not be called from a callback.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	users := c.users
	c.users = nil
	c.mu.Unlock()
	for u := range users {
		u.abandon()
	}
	c.cluster.Close()
	return nil
}

// Admin is for creating, changing and looking at topics.
func (c *Client) Admin() *Admin { return &Admin{client: c} }

// enter notes a producer or consumer; false when the client is closed.
func (c *Client) enter(u user) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.users[u] = struct{}{}
	return true
}

func (c *Client) leave(u user) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, u)
}
