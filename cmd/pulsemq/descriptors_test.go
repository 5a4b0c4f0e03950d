package main

import (
	"io"
	"log/slog"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// However few descriptors there are, connections and segments together never get more than what is left.
func TestDescriptorsAreShared(t *testing.T) {
	for _, shards := range []int{1, 2, 16, 64} {
		c := core.Config{}
		c.Broker.Shards, c.Storage.JournalSize, c.Storage.JournalFileSize = shards, 512<<20, 64<<20
		c.Network.MaxConnections = 10_000
		refused := 0
		for limit := 1; limit < 1<<21; limit += 1 + limit/20 {
			d, err := shareDescriptors(limit, &c)
			if err != nil {
				refused = limit
				continue
			}
			used := descriptorsOwn + shards*(descriptorsOfShard+8+d.segmentFiles) + d.connections
			if used > limit || d.segmentFiles < segmentFilesMin || d.connections < connectionsLeast {
				t.Fatalf("%d shards share %d descriptors as %+v, which is %d", shards, limit, d, used)
			}
			at := c
			d.capConnections(&at, slog.New(slog.NewTextHandler(io.Discard, nil)))
			if at.Network.MaxConnections > d.connections || at.Network.MaxConnections > c.Network.MaxConnections {
				t.Fatalf("%d connections of %d", at.Network.MaxConnections, d.connections)
			}
		}
		if most := 60 + 30*shards; refused == 0 || refused > most {
			t.Fatalf("%d shards: refused with %d descriptors; at most %d should be needed", shards, refused, most)
		}
	}
}
