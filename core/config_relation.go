package core

import (
	"fmt"
	"slices"
)

// Relation declares what must hold between keys of a resolved configuration.
type Relation struct {
	Key  string   // the key that is named when it does not hold
	With []string // the others
	Doc  string
	// problem says what is wrong and what to do, or "".
	problem func(*Config) string
}

var relations = []Relation{
	{"memory.limit", []string{"broker.shards", "broker.reactors"},
		fmt.Sprintf("at least %v for the first shard and reactor, and %v for each further one.", memoryLimitMin, memoryPerThreadMin),
		func(c *Config) string {
			least := memoryNeed(c.Broker.Shards + c.Broker.Reactors)
			if c.Memory.Limit >= least {
				return ""
			}
			return fmt.Sprintf("%d shards and %d reactors need at least %v: raise it, or lower broker.shards or broker.reactors",
				c.Broker.Shards, c.Broker.Reactors, least)
		}},
	{"storage.tail-cache", []string{"memory.limit"},
		"at most a sixteenth of memory.limit: half of the memory that batches come in through, where large ones stay.",
		func(c *Config) string {
			if c.Storage.TailCache <= c.Memory.Limit/tailCacheShare {
				return ""
			}
			return fmt.Sprintf("allowed is at most a sixteenth of memory.limit (%v): lower it, or raise memory.limit", c.Memory.Limit)
		}},
	{"admin.port", []string{"admin.host", "network.port", "network.host"},
		"another than network.port where both listeners share an address.",
		func(c *Config) string {
			if c.Admin.Port == 0 || c.Admin.Port != c.Network.Port || !hostsOverlap(c.Network.Host, c.Admin.Host) {
				return ""
			}
			return "the same as network.port on the same address: choose another"
		}},
	{"network.max-connections-per-ip", []string{"network.max-connections"},
		"at most network.max-connections, or unlimited.",
		func(c *Config) string {
			if c.Network.MaxConnectionsPerIP <= c.Network.MaxConnections || c.Network.MaxConnectionsPerIP == CountUnlimited {
				return ""
			}
			return fmt.Sprintf("allowed is at most network.max-connections (%d), or unlimited", c.Network.MaxConnections)
		}},
	{"network.idle-timeout", []string{"network.keepalive"},
		"at least twice network.keepalive, or live clients would be closed.",
		func(c *Config) string {
			if c.Network.IdleTimeout >= 2*c.Network.Keepalive {
				return ""
			}
			return fmt.Sprintf("must be at least twice network.keepalive (%s), or live clients would be closed", FormatDuration(c.Network.Keepalive))
		}},
	{"storage.segment-size", []string{"producer.max-batch-bytes"},
		fmt.Sprintf("at least producer.max-batch-bytes and %v of headers.", segmentRoomBytes),
		func(c *Config) string {
			least := c.Producer.MaxBatchBytes + segmentRoomBytes
			if c.Storage.SegmentSize >= least {
				return ""
			}
			return fmt.Sprintf("a segment must hold a largest batch and %v of headers: raise it to at least %v, or lower producer.max-batch-bytes",
				segmentRoomBytes, least)
		}},
	{"storage.journal-file-size", nil,
		fmt.Sprintf("a multiple of %v.", Size(JournalGroupBytesMax)),
		func(c *Config) string {
			if c.Storage.JournalFileSize%JournalGroupBytesMax == 0 {
				return ""
			}
			return fmt.Sprintf("must be a multiple of %v", Size(JournalGroupBytesMax))
		}},
	{"storage.journal-size", []string{"storage.journal-file-size"},
		fmt.Sprintf("at least %d times storage.journal-file-size.", journalFilesMin),
		func(c *Config) string {
			least := journalFilesMin * c.Storage.JournalFileSize
			if c.Storage.JournalSize >= least {
				return ""
			}
			return fmt.Sprintf("must hold at least %d files of storage.journal-file-size (%v each): raise it to %v, or lower the file size",
				journalFilesMin, c.Storage.JournalFileSize, least)
		}},
}

// Relations returns the declarations in the order in which they are listed.
func Relations() []Relation { return slices.Clone(relations) }

// relationFaults checks every relation whose keys are all usable.
func (c *Config) relationFaults(usable func(name string) bool) Faults {
	var faults Faults
	for _, r := range relations {
		if !usable(r.Key) || slices.ContainsFunc(r.With, func(name string) bool { return !usable(name) }) {
			continue
		}
		if problem := r.problem(c); problem != "" {
			key := keys[keyIndex(r.Key)]
			faults = append(faults, Fault{Key: r.Key, Value: key.format(load(key.field(c))), Problem: problem})
		}
	}
	return faults
}
