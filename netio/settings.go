package netio

import (
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// Settings is what the sessions of a reactor need of the configuration.
// Durations are nanoseconds, as the clock counts.
type Settings struct {
	NodeID core.NodeID

	HandshakeTimeout  int64 // HELLO must have come; also the longest a begun frame may stand still
	Keepalive         int64 // silence after which the broker sends a PING
	IdleTimeout       int64 // silence after which the connection is closed
	SlowReaderTimeout int64
	RequestTimeout    int64 // for requests that leave their timeout to the broker

	WindowBytes    int64 // the largest window of one connection
	WindowRequests int
	// WindowBudgetBytes bounds the sum of the windows that one reactor has granted.
	WindowBudgetBytes int64

	SendBufferMax int // bytes waiting for one connection to take them

	// AutoCreate has METADATA create the topics that it names and that do not exist.
	AutoCreate bool

	BatchBytesMax   int
	BatchRecordsMax int
	FetchBytesMax   int
	FetchRecordsMax int
	FetchWaitMax    int64
}

// requestTimeoutDefault is what a request waits that leaves it to the broker.
const requestTimeoutDefault = 30 * time.Second

// keepalivesPerIdle is how many keepalive times a connection may be silent.
const keepalivesPerIdle = 3

// NewSettings takes the sessions' part out of a configuration. The window budget
// is that of one reactor.
func NewSettings(c *core.Config, windowBudgetBytes int64) Settings {
	return Settings{
		NodeID:           c.Broker.NodeID,
		HandshakeTimeout: int64(c.Network.HandshakeTimeout),
		// HELLO promises that a connection may be silent for three of these, and a PING
		// must come before the idle timeout to be of use.
		Keepalive:         int64(min(c.Network.Keepalive, c.Network.IdleTimeout/keepalivesPerIdle)),
		IdleTimeout:       int64(c.Network.IdleTimeout),
		SlowReaderTimeout: int64(c.Network.SlowReaderTimeout),
		RequestTimeout:    int64(requestTimeoutDefault),
		WindowBytes:       int64(c.Network.WindowBytes),
		WindowRequests:    c.Network.WindowRequests,
		WindowBudgetBytes: windowBudgetBytes,
		SendBufferMax:     int(c.Network.SendBufferMax),
		AutoCreate:        c.Topics.AutoCreate,
		BatchBytesMax:     int(c.Producer.MaxBatchBytes),
		BatchRecordsMax:   c.Producer.MaxBatchSize,
		FetchBytesMax:     int(c.Consumer.MaxFetchBytes),
		FetchRecordsMax:   c.Consumer.MaxFetchMessages,
		FetchWaitMax:      int64(c.Consumer.MaxFetchWait),
	}
}

// Listener is where a connection came in: what METADATA tells its clients to connect to.
type Listener struct {
	AdvertisedHost string
	AdvertisedPort int
}

// Principal is on whose behalf a connection acts. Until a login every connection
// is Anonymous; what a principal may do is decided where a request is taken in.
type Principal struct {
	Name string
}

// Anonymous is the principal of a connection that has not logged in.
var Anonymous = &Principal{Name: "anonymous"}
