package core

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Setting is one key and its value as somebody wrote it, and where.
type Setting struct {
	Key    string
	Value  string
	Source string // "pulsemq.yaml:12", "PULSEMQ_NETWORK_PORT", "--set"
}

// ParseConfig builds a configuration from settings in rising precedence: a later
// setting of a key replaces an earlier one. Every fault of every setting is
// reported, also of those replaced; when there are any, the config must not be used.
func ParseConfig(settings []Setting, machine Machine) (Config, Faults) {
	var c Config
	var faults Faults
	for _, key := range keys {
		v, err := key.parse(key.Default)
		Assert(err == nil, "a declared default lies in its key's domain")
		store(key.field(&c), v)
	}
	last := make(map[string]Setting)
	faulty := make(map[string]bool)
	for _, s := range settings {
		at := keyIndex(s.Key)
		if at < 0 {
			// The value of an unknown key may be a secret; it is not repeated.
			faults = append(faults, Fault{Key: s.Key, Source: s.Source, Problem: "no such key" + didYouMean(s.Key, KeyNames())})
			continue
		}
		v, err := keys[at].parse(s.Value)
		if err != nil {
			faults = append(faults, Fault{s.Key, s.Value, s.Source, err.Error()})
			faulty[s.Key] = true
			continue
		}
		store(keys[at].field(&c), v)
		last[s.Key] = s
	}
	c.resolve(machine)
	for _, f := range c.relationFaults() {
		// A relation with a value that was not understood would only repeat the fault.
		if faulty[f.Key] || slices.ContainsFunc(f.with, func(name string) bool { return faulty[name] }) {
			continue
		}
		f.Source = last[f.Key].Source
		faults = append(faults, f.Fault)
	}
	return c, faults
}

// DefaultConfig is the configuration when nothing is set.
func DefaultConfig(machine Machine) Config {
	c, faults := ParseConfig(nil, machine)
	Assert(faults == nil, "the defaults are valid on every machine")
	return c
}

// Validate reports every fault of a configuration that was built in code.
func (c *Config) Validate() Faults {
	var faults Faults
	for _, key := range keys {
		v := load(key.field(c))
		if key.auto(v) {
			continue
		}
		if problem := key.problem(v); problem != "" {
			faults = append(faults, Fault{Key: key.Name, Value: key.format(v), Problem: problem})
		}
	}
	for _, f := range c.relationFaults() {
		faults = append(faults, f.Fault)
	}
	return faults
}

// ConfigValue is one line of a printed configuration.
type ConfigValue struct {
	Name   string
	Value  string
	Source string // of the setting that decided it, or "default"
}

// List describes the effective configuration, one entry per key in the order of
// the declarations. settings are those it was parsed from.
func (c *Config) List(settings []Setting) []ConfigValue {
	list := make([]ConfigValue, len(keys))
	for i, key := range keys {
		list[i] = ConfigValue{key.Name, key.format(load(key.field(c))), "default"}
		for _, s := range settings {
			if s.Key == key.Name {
				list[i].Source = s.Source
			}
		}
	}
	return list
}

// relationFault is a fault between keys; with names the others.
type relationFault struct {
	Fault
	with []string
}

// relationFaults checks what holds between keys of a resolved configuration.
func (c *Config) relationFaults() []relationFault {
	var faults []relationFault
	refuse := func(name, problem string, with ...string) {
		key := keys[keyIndex(name)]
		faults = append(faults, relationFault{Fault{Key: name, Value: key.format(load(key.field(c))), Problem: problem}, with})
	}

	if memory := memoryNeed(c.Broker.Shards + c.Broker.Reactors); c.Memory.Limit < memory {
		refuse("memory.limit", fmt.Sprintf("%d shards and %d reactors need at least %v: raise it, or lower broker.shards or broker.reactors",
			c.Broker.Shards, c.Broker.Reactors, memory), "broker.shards", "broker.reactors")
	}
	if c.Storage.TailCache > c.Memory.Limit/2 {
		refuse("storage.tail-cache", fmt.Sprintf("allowed is at most half of memory.limit (%v): lower it, or raise memory.limit", c.Memory.Limit),
			"memory.limit")
	}
	if c.Network.Port != 0 && c.Network.Port == c.Admin.Port && hostsOverlap(c.Network.Host, c.Admin.Host) {
		refuse("admin.port", "the same as network.port on the same address: choose another", "network.port", "network.host", "admin.host")
	}
	if c.Network.MaxConnectionsPerIP != int(SizeUnlimited) && c.Network.MaxConnectionsPerIP > c.Network.MaxConnections {
		refuse("network.max-connections-per-ip", fmt.Sprintf("allowed is at most network.max-connections (%d), or unlimited", c.Network.MaxConnections),
			"network.max-connections")
	}
	if c.Network.IdleTimeout < 2*c.Network.Keepalive {
		refuse("network.idle-timeout", fmt.Sprintf("must be at least twice network.keepalive (%s), or live clients would be closed",
			FormatDuration(c.Network.Keepalive)), "network.keepalive")
	}
	if c.Storage.SegmentSize < c.Producer.MaxBatchBytes+segmentRoomBytes {
		refuse("storage.segment-size", fmt.Sprintf("a segment must hold a largest batch and %v of headers: raise it to at least %v, or lower producer.max-batch-bytes",
			segmentRoomBytes, c.Producer.MaxBatchBytes+segmentRoomBytes), "producer.max-batch-bytes")
	}
	if c.Storage.JournalFileSize%JournalGroupBytesMax != 0 {
		refuse("storage.journal-file-size", fmt.Sprintf("must be a multiple of %v", Size(JournalGroupBytesMax)))
	}
	if c.Storage.JournalSize < journalFilesMin*c.Storage.JournalFileSize {
		refuse("storage.journal-size", fmt.Sprintf("must hold at least %d files of storage.journal-file-size (%v each): raise it to %v, or lower the file size",
			journalFilesMin, c.Storage.JournalFileSize, journalFilesMin*c.Storage.JournalFileSize), "storage.journal-file-size")
	}
	return faults
}

// hostProblem says why a text is no host to listen on or to connect to, or "".
func hostProblem(host string) string {
	const allowed = "allowed are an IPv4 address, an IPv6 address without brackets, and a host name"
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	if host == "" || len(host) > 253 || strings.Trim(host, "0123456789.") == "" {
		return allowed
	}
	for _, label := range strings.Split(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool { return r == '.' || r > 127 || !topicNameByte(byte(r)) }) {
			return allowed
		}
	}
	return ""
}

// hostIsWildcard reports whether a listener on host serves all addresses.
func hostIsWildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsUnspecified()
}

// hostsOverlap reports whether listeners on both hosts would want one port twice.
func hostsOverlap(a, b string) bool {
	return a == b || hostIsWildcard(a) || hostIsWildcard(b)
}

func pathProblem(path string) string {
	if path == "" || strings.ContainsRune(path, 0) {
		return "wants the path of a folder"
	}
	return ""
}
