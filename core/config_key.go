package core

import (
	"math"
	"slices"
	"strings"
	"time"
)

// EnvPrefix begins the environment variables that are configuration keys.
const EnvPrefix = "PULSEMQ_"

// Key declares one configuration key of the broker: everything that parsing,
// checking, printing and docs/CONFIG.md say about it.
type Key struct {
	Name    string
	Default string // as an operator would spell it
	Domain
	Doc   string
	field func(*Config) any
}

// Env is the key's environment variable: network.port is PULSEMQ_NETWORK_PORT.
func (k Key) Env() string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(k.Name))
}

const (
	// memoryLimitMin is the least memory in which one shard and one reactor have
	// slabs, a tail cache and a Go heap to work with.
	memoryLimitMin = 128 * MiB

	// memoryPerThreadMin is what each further shard or reactor adds to that.
	memoryPerThreadMin = 32 * MiB

	tailCacheMin = 8 * MiB

	// tailCacheShare: a sixteenth of memory.limit is the most that the tail cache
	// can have. A large batch is kept in the slab that it came in, and an eighth of
	// the limit is for those; with more than half of them in the cache, producers
	// would be refused for want of slabs.
	tailCacheShare = 16

	// segmentRoomBytes is what a segment holds beside one largest batch: its header,
	// the write mark and frame headers, and padding to the disk's unit.
	segmentRoomBytes = 16 * KiB

	// journalFilesMin is one file that is written, one that is filled next, one
	// being emptied, and the reserve that lets a full disk still trim and delete.
	journalFilesMin = 4

	yearsTen = 3650 * Day
)

// The domains that a broker key and a topic key share.
var (
	flushTimeDomain      = Domain{Kind: KindDuration, Min: int64(time.Millisecond), Max: int64(time.Hour)}
	flushBytesDomain     = Domain{Kind: KindSize, Min: int64(4 * KiB), Max: int64(GiB)}
	retentionTimeDomain  = Domain{Kind: KindDuration, Min: int64(time.Second), Max: int64(yearsTen), Unlimited: true}
	retentionBytesDomain = Domain{Kind: KindSize, Min: int64(MiB), Max: int64(1024 * TiB), Unlimited: true}
	segmentBytesDomain   = Domain{Kind: KindSize, Min: int64(MiB), Max: int64(16 * GiB)}
	segmentTimeDomain    = Domain{Kind: KindDuration, Min: int64(time.Second), Max: int64(yearsTen), Unlimited: true}
	batchBytesDomain     = Domain{Kind: KindSize, Min: int64(KiB), Max: BatchBytesMax}
	timestampAheadDomain = Domain{Kind: KindDuration, Min: int64(time.Second), Max: int64(yearsTen), Unlimited: true}
)

// inMillis is the domain of a key whose name says that it is in milliseconds.
func inMillis(d Domain) Domain {
	d.Millis = true
	return d
}

// The domains of texts.
var (
	hostDomain = Domain{Kind: KindText, Noun: "host", Check: hostProblem}
	pathDomain = Domain{Kind: KindText, Noun: "path", Check: pathProblem}

	deadLetterDomain = Domain{Kind: KindText, Noun: "topic's name", Check: deadLetterProblem}
)

// keys declares every key of the broker, in the order in which they are listed.
var keys = []Key{
	{"broker.node-id", "1", Domain{Kind: KindCount, Min: 1, Max: math.MaxInt32},
		"This broker's number in its cluster. It is written into the data folder and cannot change afterwards.",
		func(c *Config) any { return &c.Broker.NodeID }},
	{"broker.shards", "auto", Domain{Kind: KindCount, Min: 1, Max: ShardsMax, Auto: true},
		"Threads that own partitions. `auto` is half of the processors. When it changes, the next start moves the journals to the new layout.",
		func(c *Config) any { return &c.Broker.Shards }},
	{"broker.reactors", "auto", Domain{Kind: KindCount, Min: 1, Max: ReactorsMax, Auto: true},
		"Threads that own connections. `auto` is the processors that are not shards.",
		func(c *Config) any { return &c.Broker.Reactors }},
	{"broker.pin-threads", "true", Domain{Kind: KindBool},
		"Whether shards and reactors are bound to processors, where the system can. Turn it off when several brokers share a machine.",
		func(c *Config) any { return &c.Broker.PinThreads }},
	{"broker.shutdown-timeout", "30s", Domain{Kind: KindDuration, Min: int64(time.Second), Max: int64(10 * time.Minute)},
		"How long a stop by SIGTERM may take to answer what is in flight and to sync.",
		func(c *Config) any { return &c.Broker.ShutdownTimeout }},

	{"memory.limit", "auto", Domain{Kind: KindSize, Min: int64(memoryLimitMin), Max: int64(16 * TiB), Auto: true},
		"Memory that the broker uses at most. `auto` is half of the control group's limit, or of the machine.",
		func(c *Config) any { return &c.Memory.Limit }},

	{"network.host", "127.0.0.1", hostDomain,
		"Address on which clients are served: an IPv4 or IPv6 address or a name. `0.0.0.0` and `::` are all addresses.",
		func(c *Config) any { return &c.Network.Host }},
	{"network.port", "9090", Domain{Kind: KindCount, Min: 0, Max: 65535},
		"Port on which clients are served. 0 takes any free one; the log line `ready` says which.",
		func(c *Config) any { return &c.Network.Port }},
	{"network.advertised-host", "auto", Domain{Kind: KindText, Noun: "host", Auto: true, Check: hostProblem},
		"Host that clients are told to connect to. `auto` is network.host, or the machine's name when that means all addresses.",
		func(c *Config) any { return &c.Network.AdvertisedHost }},
	{"network.advertised-port", "auto", Domain{Kind: KindCount, Min: 1, Max: 65535, Auto: true},
		"Port that clients are told to connect to. `auto` is the port of the listener.",
		func(c *Config) any { return &c.Network.AdvertisedPort }},
	{"network.max-connections", "10000", Domain{Kind: KindCount, Min: 1, Max: 1_000_000},
		"Client connections at one time; further ones are closed at once.",
		func(c *Config) any { return &c.Network.MaxConnections }},
	{"network.max-connections-per-ip", "unlimited", Domain{Kind: KindCount, Min: 1, Max: 1_000_000, Unlimited: true},
		"Client connections at one time from one address.",
		func(c *Config) any { return &c.Network.MaxConnectionsPerIP }},
	{"network.handshake-timeout", "10s", Domain{Kind: KindDuration, Min: int64(100 * time.Millisecond), Max: int64(5 * time.Minute)},
		"How long a new connection may take until its first request has been understood.",
		func(c *Config) any { return &c.Network.HandshakeTimeout }},
	{"network.idle-timeout", "90s", Domain{Kind: KindDuration, Min: int64(time.Second), Max: int64(Day)},
		"A connection on which nothing was received for so long is closed.",
		func(c *Config) any { return &c.Network.IdleTimeout }},
	{"network.keepalive", "30s", Domain{Kind: KindDuration, Min: int64(100 * time.Millisecond), Max: int64(time.Hour)},
		"A connection silent for so long is sent a PING, which a live client answers.",
		func(c *Config) any { return &c.Network.Keepalive }},
	{"network.window-bytes", "8MiB", Domain{Kind: KindSize, Min: FrameBytesMax, Max: int64(GiB)},
		"Bytes of requests that one connection may have unanswered.",
		func(c *Config) any { return &c.Network.WindowBytes }},
	{"network.window-requests", "1024", Domain{Kind: KindCount, Min: 1, Max: 65536},
		"Requests that one connection may have unanswered.",
		func(c *Config) any { return &c.Network.WindowRequests }},
	{"network.slow-reader-timeout", "30s", Domain{Kind: KindDuration, Min: int64(100 * time.Millisecond), Max: int64(time.Hour)},
		"A connection that takes none of the bytes waiting for it for so long is closed.",
		func(c *Config) any { return &c.Network.SlowReaderTimeout }},
	{"network.send-buffer-max", "8MiB", Domain{Kind: KindSize, Min: FrameBytesMax, Max: int64(GiB)},
		"Bytes that wait in memory for one connection to take them; no more is read from disk for it meanwhile.",
		func(c *Config) any { return &c.Network.SendBufferMax }},

	{"admin.host", "127.0.0.1", hostDomain,
		"Address of the HTTP listener for `/metrics`, `/healthz` and `/readyz`.",
		func(c *Config) any { return &c.Admin.Host }},
	{"admin.port", "9080", Domain{Kind: KindCount, Min: 0, Max: 65535},
		"Port of the HTTP listener. 0 takes any free one; the log line `ready` says which.",
		func(c *Config) any { return &c.Admin.Port }},
	{"admin.pprof", "false", Domain{Kind: KindBool},
		"Whether the HTTP listener serves `/debug/pprof`. Profiles show the broker's inside to whoever reaches the port.",
		func(c *Config) any { return &c.Admin.Pprof }},

	{"storage.data-dir", "./data", pathDomain,
		"Folder of everything that the broker keeps. One broker per folder.",
		func(c *Config) any { return &c.Storage.DataDir }},
	{"storage.disk", "auto", Domain{Kind: KindChoice, Choices: diskChoices},
		"How files are read and written: `uring` through io_uring, `posix` through worker threads; `auto` is io_uring where the kernel allows it.",
		func(c *Config) any { return &c.Storage.Disk }},
	{"storage.segment-size", "1GiB", segmentBytesDomain,
		"Size from which a new segment file is begun. Default of the topic key segment.bytes.",
		func(c *Config) any { return &c.Storage.SegmentSize }},
	{"storage.segment-ms", "7d", inMillis(segmentTimeDomain),
		"Age from which a new segment file is begun. Default of the topic key segment.ms.",
		func(c *Config) any { return &c.Storage.SegmentTime }},
	{"storage.journal-size", "512MiB", Domain{Kind: KindSize, Min: int64(16 * MiB), Max: int64(64 * GiB)},
		"Size of one shard's journal, all files together.",
		func(c *Config) any { return &c.Storage.JournalSize }},
	{"storage.journal-file-size", "64MiB", Domain{Kind: KindSize, Min: int64(4 * MiB), Max: int64(GiB)},
		"Size of one journal file; a multiple of 1MiB.",
		func(c *Config) any { return &c.Storage.JournalFileSize }},
	{"storage.min-free", "512MiB", Domain{Kind: KindSize, Min: int64(MiB), Max: int64(16 * TiB)},
		"Free space of the data folder's file system below which producers are answered STORAGE_FULL. Reads, trims and deletes go on.",
		func(c *Config) any { return &c.Storage.MinFree }},
	{"storage.tail-cache", "auto", Domain{Kind: KindSize, Min: int64(tailCacheMin), Max: int64(16 * TiB), Auto: true},
		"Memory, of all shards together, that keeps the newest frames for consumers that are caught up. `auto` is a sixteenth of memory.limit.",
		func(c *Config) any { return &c.Storage.TailCache }},
	{"storage.flush-bytes", "1MiB", Domain{Kind: KindSize, Min: int64(64 * KiB), Max: SegmentExtentBytes},
		"How many bytes of a partition's small frames gather before they are written to its segment. They are durable in the journal before that.",
		func(c *Config) any { return &c.Storage.FlushBytes }},
	{"storage.retention-interval", "1m", Domain{Kind: KindDuration, Min: int64(100 * time.Millisecond), Max: int64(Day)},
		"How often segments past their retention are looked for.",
		func(c *Config) any { return &c.Storage.RetentionInterval }},
	{"storage.compaction-interval", "5m", Domain{Kind: KindDuration, Min: int64(100 * time.Millisecond), Max: int64(Day)},
		"How often compacted topics are looked through.",
		func(c *Config) any { return &c.Storage.CompactionInterval }},
	{"storage.clock-jump-max", "1h", Domain{Kind: KindDuration, Min: int64(time.Second), Max: int64(30 * Day)},
		"When the wall clock and the monotonic clock differ by more, retention by age stops and the log says so.",
		func(c *Config) any { return &c.Storage.ClockJumpMax }},
	{"storage.scrub-rate", "8MiB", Domain{Kind: KindSize, Min: int64(64 * KiB), Max: int64(16 * GiB)},
		"Bytes per second, of all shards together, at which stored records are read again in the background to find damage while it can still be mended.",
		func(c *Config) any { return &c.Storage.ScrubRate }},
	{"storage.scrub-interval", "1d", Domain{Kind: KindDuration, Min: int64(time.Second), Max: int64(yearsTen), Unlimited: true},
		"Least time between the beginnings of two such passes over everything stored. `unlimited` reads again only when `pulsectl scrub start` asks for it.",
		func(c *Config) any { return &c.Storage.ScrubInterval }},

	{"durability.mode", "sync", Domain{Kind: KindChoice, Choices: durabilityNames[:]},
		"What an acknowledgement promises: `sync` is on disk, `batch` is written and synced soon after, `none` is accepted in memory. Default of the topic key durability.",
		func(c *Config) any { return &c.Durability.Mode }},
	{"durability.flush-ms", "50ms", inMillis(flushTimeDomain),
		"With durability `batch`: the longest that a written record waits for its sync. Default of the topic key flush.ms.",
		func(c *Config) any { return &c.Durability.FlushTime }},
	{"durability.flush-bytes", "16MiB", flushBytesDomain,
		"With durability `batch`: how many bytes may wait for their sync. Default of the topic key flush.bytes.",
		func(c *Config) any { return &c.Durability.FlushBytes }},

	{"partitions.default-count", "1", Domain{Kind: KindCount, Min: 1, Max: PartitionsPerTopicMax},
		"Partitions of a topic that is created without a number of them.",
		func(c *Config) any { return &c.Partitions.DefaultCount }},
	{"replication.factor", "1", Domain{Kind: KindCount, Min: 1, Max: 7},
		"Copies of a topic that is created without a number of them. A topic is refused when it is more than there are brokers.",
		func(c *Config) any { return &c.Replication.Factor }},

	{"topics.auto-create", "false", Domain{Kind: KindBool},
		"Whether a producer or consumer that names an unknown topic creates it.",
		func(c *Config) any { return &c.Topics.AutoCreate }},
	{"topics.validate-compressed", "false", Domain{Kind: KindBool},
		"Whether compressed batches are opened and their records checked. Default of the topic key compression.validate.",
		func(c *Config) any { return &c.Topics.ValidateCompressed }},
	{"topics.timestamp-type", "create", Domain{Kind: KindChoice, Choices: timestampTypes},
		"Whose clock a record's timestamp is. Default of the topic key message.timestamp.type.",
		func(c *Config) any { return &c.Topics.TimestampType }},
	{"topics.timestamp-ahead-max", "1h", timestampAheadDomain,
		"How far a producer's timestamp may lie ahead of the broker's clock. Default of the topic key message.timestamp.ahead.max.ms.",
		func(c *Config) any { return &c.Topics.TimestampAheadMax }},

	{"retention.ms", "7d", inMillis(retentionTimeDomain),
		"How long records are kept. Default of the topic key retention.ms.",
		func(c *Config) any { return &c.Retention.Time }},
	{"retention.bytes", "unlimited", retentionBytesDomain,
		"How many bytes of records one partition keeps. Default of the topic key retention.bytes.",
		func(c *Config) any { return &c.Retention.Bytes }},

	{"producer.max-batch-size", "100000", Domain{Kind: KindCount, Min: 1, Max: 1_000_000},
		"Records that one batch may hold.",
		func(c *Config) any { return &c.Producer.MaxBatchSize }},
	{"producer.max-batch-bytes", "1MiB", batchBytesDomain,
		"Largest record batch that is accepted, as it is sent, on any topic. Default and upper bound of the topic key max.message.bytes.",
		func(c *Config) any { return &c.Producer.MaxBatchBytes }},
	{"producer.expiry", "7d", Domain{Kind: KindDuration, Min: int64(time.Minute), Max: int64(yearsTen)},
		"An idempotent producer silent for so long, while others send to its partition, is forgotten; its retries are no longer recognised. A gap of over an hour in which nobody sends does not count.",
		func(c *Config) any { return &c.Producer.Expiry }},

	{"consumer.max-fetch-messages", "100000", Domain{Kind: KindCount, Min: 1, Max: 10_000_000},
		"Records that one fetch answers at most, whatever it asks for. Batches are never split: the last one may go over.",
		func(c *Config) any { return &c.Consumer.MaxFetchMessages }},
	{"consumer.max-fetch-bytes", "16MiB", Domain{Kind: KindSize, Min: int64(4 * KiB), Max: int64(GiB)},
		"Bytes that one fetch answers at most, whatever it asks for. A batch larger than that comes alone.",
		func(c *Config) any { return &c.Consumer.MaxFetchBytes }},
	{"consumer.max-fetch-wait", "30s", Domain{Kind: KindDuration, Min: int64(time.Millisecond), Max: int64(time.Hour)},
		"How long a fetch waits for new records at most, whatever it asks for.",
		func(c *Config) any { return &c.Consumer.MaxFetchWait }},

	{"offsets.retention", "7d", Domain{Kind: KindDuration, Min: int64(time.Second), Max: int64(yearsTen)},
		"How long what a consumer group has committed is kept after it has had its last member and its last commit.",
		func(c *Config) any { return &c.Offsets.Retention }},

	{"log.level", "info", Domain{Kind: KindChoice, Choices: []string{"debug", "info", "warn", "error"}},
		"Least severity that is logged.",
		func(c *Config) any { return &c.Log.Level }},
	{"metrics.per-topic", "true", Domain{Kind: KindBool},
		"Whether the metrics page has series for each topic.",
		func(c *Config) any { return &c.Metrics.PerTopic }},
}

// Keys returns the declarations in the order in which they are listed.
func Keys() []Key { return slices.Clone(keys) }

// KeyNames returns the names of all keys.
func KeyNames() []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.Name
	}
	return names
}

func keyIndex(name string) int {
	return slices.IndexFunc(keys, func(k Key) bool { return k.Name == name })
}
