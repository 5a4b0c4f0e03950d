package core

import (
	"log/slog"
	"time"
)

// Config is what an operator chose for one broker. Each field is a key declared
// in config_key.go under the same name; ParseConfig fills and checks it. After
// that no field is "auto" except the two advertised ones that say so.
type Config struct {
	Broker      BrokerConfig
	Memory      MemoryConfig
	Network     NetworkConfig
	Admin       AdminConfig
	Storage     StorageConfig
	Durability  DurabilityConfig
	Partitions  PartitionsConfig
	Replication ReplicationConfig
	Topics      TopicsConfig
	Retention   RetentionConfig
	Producer    ProducerConfig
	Consumer    ConsumerConfig
	Offsets     OffsetsConfig
	Log         LogConfig
	Metrics     MetricsConfig
}

// BrokerConfig is the process and its threads.
type BrokerConfig struct {
	NodeID          NodeID
	Shards          int
	Reactors        int
	PinThreads      bool
	ShutdownTimeout time.Duration
}

// MemoryConfig bounds the process.
type MemoryConfig struct {
	Limit Size
}

// NetworkConfig is the clients' listener and what one connection may do.
type NetworkConfig struct {
	Host string
	Port int // 0 takes any free port

	AdvertisedHost string
	AdvertisedPort int // 0 is the port that the listener got

	MaxConnections      int
	MaxConnectionsPerIP int
	HandshakeTimeout    time.Duration
	IdleTimeout         time.Duration
	Keepalive           time.Duration
	WindowBytes         Size
	WindowRequests      int
	SlowReaderTimeout   time.Duration
	SendBufferMax       Size
}

// AdminConfig is the HTTP listener for metrics, health and profiles.
type AdminConfig struct {
	Host  string
	Port  int // 0 takes any free port
	Pprof bool
}

// StorageConfig is the data folder and how it is written, read and kept.
type StorageConfig struct {
	DataDir            string
	Disk               DiskChoice
	SegmentSize        Size
	SegmentTime        time.Duration
	JournalSize        Size // of one shard
	JournalFileSize    Size
	MinFree            Size
	TailCache          Size // of all shards together
	FlushBytes         Size
	RetentionInterval  time.Duration
	CompactionInterval time.Duration
	ClockJumpMax       time.Duration
	ScrubRate          Size          // per second, of all shards together
	ScrubInterval      time.Duration // unlimited: only when asked
}

// DurabilityConfig is the default promise of an acknowledgement.
type DurabilityConfig struct {
	Mode       Durability
	FlushTime  time.Duration
	FlushBytes Size
}

// PartitionsConfig is the default shape of a topic.
type PartitionsConfig struct {
	DefaultCount int
}

// ReplicationConfig is the default number of copies.
type ReplicationConfig struct {
	Factor int
}

// TopicsConfig is the default of topics that do not say otherwise.
type TopicsConfig struct {
	AutoCreate         bool
	ValidateCompressed bool
	TimestampType      TimestampType
	TimestampAheadMax  time.Duration
}

// RetentionConfig is how long records are kept by default.
type RetentionConfig struct {
	Time  time.Duration
	Bytes Size // of one partition
}

// ProducerConfig bounds what producers send.
type ProducerConfig struct {
	MaxBatchSize  int // records
	MaxBatchBytes Size
	Expiry        time.Duration
}

// ConsumerConfig bounds what one fetch answers.
type ConsumerConfig struct {
	MaxFetchMessages int
	MaxFetchBytes    Size
	MaxFetchWait     time.Duration
}

// OffsetsConfig is about what consumer groups commit.
type OffsetsConfig struct {
	Retention time.Duration
}

// LogConfig is the broker's own log.
type LogConfig struct {
	Level slog.Level
}

// MetricsConfig is the metrics page.
type MetricsConfig struct {
	PerTopic bool
}

// DiskChoice says which disk driver serves the shards.
type DiskChoice uint8

const (
	// DiskAuto takes io_uring where the kernel allows it, else worker threads.
	DiskAuto DiskChoice = iota
	// DiskUring refuses to start without io_uring.
	DiskUring
	// DiskPosix uses worker threads and ordinary system calls.
	DiskPosix
)

var diskChoices = []string{"auto", "uring", "posix"}

// String returns the choice as configuration writes it.
func (c DiskChoice) String() string { return diskChoices[c] }

// Machine is what the defaults of a broker depend on.
type Machine struct {
	CPUs        int
	MemoryBytes Size // of the control group or the machine, whichever is less
	Hostname    string
}

// resolve replaces every "auto" by what it stands for on this machine.
func (c *Config) resolve(m Machine) {
	Assert(m.CPUs > 0 && m.MemoryBytes > 0, "a machine has processors and memory")
	limit := c.Memory.Limit
	if limit == 0 {
		// Whole mebibytes read better in logs, and half of an odd number is no better.
		limit = max(memoryLimitMin, m.MemoryBytes/2/MiB*MiB)
	}
	// Many processors with little memory, as control groups make them, get fewer threads.
	threads := min(m.CPUs, 2+int(max(0, limit-memoryLimitMin)/memoryPerThreadMin))
	switch {
	case c.Broker.Shards == 0 && c.Broker.Reactors == 0:
		c.Broker.Shards = max(1, threads/2)
		c.Broker.Reactors = max(1, threads-c.Broker.Shards)
	case c.Broker.Shards == 0:
		c.Broker.Shards = max(1, threads-c.Broker.Reactors)
	case c.Broker.Reactors == 0:
		c.Broker.Reactors = max(1, threads-c.Broker.Shards)
	}
	c.Broker.Shards = min(c.Broker.Shards, ShardsMax)
	c.Broker.Reactors = min(c.Broker.Reactors, ReactorsMax)
	if c.Memory.Limit == 0 {
		c.Memory.Limit = max(limit, memoryNeed(c.Broker.Shards+c.Broker.Reactors))
	}
	if c.Storage.TailCache == 0 {
		c.Storage.TailCache = max(tailCacheMin, c.Memory.Limit/tailCacheShare/MiB*MiB)
	}
	if c.Network.AdvertisedHost == "" {
		c.Network.AdvertisedHost = c.Network.Host
		if hostIsWildcard(c.Network.Host) {
			c.Network.AdvertisedHost = m.Hostname
		}
	}
	if c.Network.AdvertisedPort == 0 {
		c.Network.AdvertisedPort = c.Network.Port
	}
}

// memoryNeed is the least memory in which so many threads work.
func memoryNeed(threads int) Size {
	return memoryLimitMin + Size(max(0, threads-2))*memoryPerThreadMin
}

// TopicDefaults is what a topic's keys are when the topic does not set them.
func (c *Config) TopicDefaults() TopicConfig {
	return TopicConfig{
		Durability:          c.Durability.Mode,
		FlushTime:           c.Durability.FlushTime,
		FlushBytes:          c.Durability.FlushBytes,
		RetentionTime:       c.Retention.Time,
		RetentionBytes:      c.Retention.Bytes,
		SegmentBytes:        c.Storage.SegmentSize,
		SegmentTime:         c.Storage.SegmentTime,
		Cleanup:             CleanupDelete,
		MessageBytesMax:     c.Producer.MaxBatchBytes,
		Timestamp:           c.Topics.TimestampType,
		TimestampAheadMax:   c.Topics.TimestampAheadMax,
		CompressionValidate: c.Topics.ValidateCompressed,
		Queue:               queueDefaults(),
	}
}
