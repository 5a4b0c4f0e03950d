package main

import (
	"fmt"
	"log/slog"
	"math"

	"golang.org/x/sys/unix"

	"github.com/pulsemq/pulsemq/core"
)

// File descriptors are shared out at the start, as memory is: else a flood of
// connections would leave the disk none, and every partition would stand still.
const (
	// descriptorsOwn are the process's: standard streams, folder and lock, listeners,
	// pollers, the operators' port.
	descriptorsOwn = 32

	// descriptorsOfShard are a shard's besides its journal and its segments: ring,
	// waker, and what its workers open for a moment.
	descriptorsOfShard = 12

	// segmentFilesMin and segmentFilesMax bound the segments that a shard keeps open.
	segmentFilesMin = 8
	segmentFilesMax = 512

	// connectionsLeast is with how few connections it is still worth starting.
	connectionsLeast = 4
)

// descriptors is who may have how many.
type descriptors struct {
	segmentFiles int // of each shard
	connections  int
}

// shareDescriptors divides a limit: a quarter of what is left for segments, an
// eighth for refused connections that are being told so, the rest for connections.
func shareDescriptors(limit int, c *core.Config) (descriptors, error) {
	shards := c.Broker.Shards
	own := descriptorsOwn + shards*(descriptorsOfShard+int(c.Storage.JournalSize/c.Storage.JournalFileSize))
	left := limit - own
	d := descriptors{segmentFiles: min(max(left/4/shards, segmentFilesMin), segmentFilesMax)}
	left -= shards * d.segmentFiles
	d.connections = left - left/8
	if d.connections < connectionsLeast {
		return d, fmt.Errorf("the limit of file descriptors is %d; at least %d are needed: raise it (ulimit -n, LimitNOFILE=)", limit, limit-d.connections+connectionsLeast+1)
	}
	return d, nil
}

// descriptorLimit is how many the process may have. The Go runtime has raised the
// soft limit to the hard one.
func descriptorLimit() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("ask for the limit of file descriptors: %w", err)
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)), nil
}

// capConnections lowers network.max-connections to what there are descriptors for:
// a connection above it is told so, which one that cannot be accepted is not.
func (d descriptors) capConnections(c *core.Config, log *slog.Logger) {
	if d.connections >= c.Network.MaxConnections {
		return
	}
	log.Warn("fewer connections are served than network.max-connections allows: file descriptors are limited",
		"max_connections", c.Network.MaxConnections, "served", d.connections)
	c.Network.MaxConnections = d.connections
}
