package pulsemq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// ClientOption changes how a client connects.
type ClientOption func(*clientConfig)

// clientConfig is what the options change. Every field has a value; none means "unlimited".
type clientConfig struct {
	name           string
	version        string
	lazy           bool
	dialTimeout    time.Duration
	requestTimeout time.Duration
	keepalive      time.Duration
	reconnectMin   time.Duration
	reconnectMax   time.Duration
	metadataAge    time.Duration
	logger         *slog.Logger
	dial           func(ctx context.Context, network, address string) (net.Conn, error)
}

func clientConfigDefault() clientConfig {
	return clientConfig{
		name:           "pulsemq-go",
		dialTimeout:    5 * time.Second,
		requestTimeout: 30 * time.Second,
		keepalive:      10 * time.Second,
		reconnectMin:   50 * time.Millisecond,
		reconnectMax:   2 * time.Second,
		metadataAge:    time.Minute,
		logger:         slog.New(slog.DiscardHandler),
		dial:           (&net.Dialer{}).DialContext,
	}
}

// ClientName is what the client calls itself in the broker's logs, at most 255 bytes; "pulsemq-go" by default.
func ClientName(name string) ClientOption { return func(c *clientConfig) { c.name = name } }

// ClientVersion is the application's version for the broker's logs, at most 255 bytes; empty by default.
func ClientVersion(version string) ClientOption { return func(c *clientConfig) { c.version = version } }

// ClientLazy makes Connect return without connecting: the first request connects.
func ClientLazy() ClientOption { return func(c *clientConfig) { c.lazy = true } }

// ClientDialTimeout bounds one attempt to connect, all addresses of a name and the handshake together; 5 s by default.
func ClientDialTimeout(d time.Duration) ClientOption {
	return func(c *clientConfig) { c.dialTimeout = d }
}

// ClientRequestTimeout is how long a broker may take to answer one request, on top of what the request itself lets it
// wait; 30 s by default. A connection that is later than this is closed: what it would still say cannot be trusted to
// come.
func ClientRequestTimeout(d time.Duration) ClientOption {
	return func(c *clientConfig) { c.requestTimeout = d }
}

// ClientKeepalive is the silence after which the client asks whether the broker lives; after three times as long the
// connection is closed. 10 s by default.
func ClientKeepalive(d time.Duration) ClientOption { return func(c *clientConfig) { c.keepalive = d } }

// ClientReconnect bounds the wait between attempts to connect to one broker. It doubles from min to max and is
// jittered by half; 50 ms and 2 s by default.
func ClientReconnect(min, max time.Duration) ClientOption {
	return func(c *clientConfig) { c.reconnectMin, c.reconnectMax = min, max }
}

// ClientMetadataAge is how old the knowledge about topics and leaders may become before it is asked for again without
// cause; 1 min by default. Errors that tell of a change refresh it at once.
func ClientMetadataAge(d time.Duration) ClientOption {
	return func(c *clientConfig) { c.metadataAge = d }
}

// ClientLogger receives what happens to connections; nothing is logged by default.
func ClientLogger(l *slog.Logger) ClientOption { return func(c *clientConfig) { c.logger = l } }

// ClientDial replaces how TCP connections are made: for proxies and tests. It is called with "tcp" and host:port, and
// has to resolve the host each time.
func ClientDial(dial func(ctx context.Context, network, address string) (net.Conn, error)) ClientOption {
	return func(c *clientConfig) { c.dial = dial }
}

// validate reports every fault at once.
func (c *clientConfig) validate() error {
	var faults []error
	for _, text := range []struct{ option, value string }{{"ClientName", c.name}, {"ClientVersion", c.version}} {
		if len(text.value) > 255 {
			faults = append(faults, fmt.Errorf("%s of %d bytes: at most 255 are allowed", text.option, len(text.value)))
		}
	}
	for _, d := range []struct {
		option string
		value  time.Duration
	}{
		{"ClientDialTimeout", c.dialTimeout}, {"ClientRequestTimeout", c.requestTimeout},
		{"ClientKeepalive", c.keepalive}, {"ClientReconnect min", c.reconnectMin}, {"ClientMetadataAge", c.metadataAge},
	} {
		if d.value < time.Millisecond {
			faults = append(faults, fmt.Errorf("%s %v: at least 1ms is allowed", d.option, d.value))
		}
	}
	if c.reconnectMax < c.reconnectMin {
		faults = append(faults, fmt.Errorf("ClientReconnect max %v: it is at least min, %v", c.reconnectMax, c.reconnectMin))
	}
	if c.dial == nil {
		faults = append(faults, errors.New("ClientDial nil: leave the option out for plain TCP"))
	}
	if c.logger == nil {
		faults = append(faults, errors.New("ClientLogger nil: leave the option out to log nothing"))
	}
	return errors.Join(faults...)
}
