package segment

import (
	"log/slog"

	"github.com/pulsemq/pulsemq/core"
)

// Store is one shard's storage: its journal and the logs of its partitions. It
// is a value that reacts: nothing in it blocks, and all I/O goes through
// core.Disk. After Start it belongs to the shard's thread.
type Store struct {
	folder  *Folder
	shard   core.ShardID
	ports   Ports
	options Options
	log     *slog.Logger

	journal *journal
	logs    map[core.PartitionID]*Log
	replay  *journalReplay // until Start

	wall int64 // clocks as told by the last Flush or Tick
	mono int64

	placeList    []*Log // logs with frames that are neither in the journal nor with the writer
	unsyncedList []*Log // logs with batch or none frames at risk
	kickList     []*Log // logs whose writer may have something to do
	failedList   []*Log // logs that return to their durable point
	activeList   []*Log // logs that hold memory or files
	activeNext   int    // where Tick goes on in activeList

	cache  cache
	files  files
	trails trails

	chunkPool  []*chunk
	writerPool []*writer
	readPool   []*diskRead
	statePool  []*stateJob
	savePool   []*segmentSave
	slotSeed   uint64

	reads                int // disk reads in flight
	full                 bool
	spaceBusy            bool
	spaceAt              int64
	clockWall, clockMono int64 // at the first Tick
	clockJumped          bool

	lookups     []*timeLookup // to be gone on with
	jobs        []core.Job    // that no worker had room for
	dropping    []*Log
	extents     extentReturn
	kickRemoval []*segment
	compactor   compactor
	scrubber    scrubber

	started  bool
	stopping bool
	stopped  bool
	refused  []*LogIdentity // logs that could not be opened
	// stopStuckAt is when a stop gives up the frames that find no room in the journal.
	stopStuckAt int64
	stats       Stats
}

// OpenStore replays a shard's journal. It blocks; shards may be opened in parallel.
func OpenStore(folder *Folder, shard core.ShardID, ports Ports, options Options) (*Store, error) {
	core.Assert(int(shard) < folder.shards, "a store is opened for a shard of the layout")
	if ports.Log == nil {
		ports.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		folder: folder, shard: shard, ports: ports, options: options.withDefaults(),
		log: ports.Log.With("shard", int(shard)), logs: make(map[core.PartitionID]*Log),
	}
	s.wall, s.mono = ports.Clock.Now(), ports.Clock.Monotonic()
	s.slotSeed = folder.salt()
	s.files.store, s.files.most = s, s.options.OpenFiles
	s.cache.store = s
	replay, err := replayJournal(folder, shard, s.options.CacheBytes, s.log)
	if err != nil {
		return nil, err
	}
	s.replay = replay
	replay.source.init(s)
	if err := s.listHeld(); err != nil {
		return nil, err
	}
	if s.journal, err = openJournal(s, replay); err != nil {
		return nil, err
	}
	s.stats.JournalDamages += uint64(replay.damages + replay.mended)
	if !replay.clean {
		s.stats.UncleanStarts++
	}
	return s, nil
}

// Clean says whether the shard's last stop was a clean one.
func (s *Store) Clean() bool { return s.replay == nil || s.replay.clean }

// Shard is whose store this is.
func (s *Store) Shard() core.ShardID { return s.shard }

// Log returns an open log, or nil.
func (s *Store) Log(id core.PartitionID) *Log { return s.logs[id] }

// Start ends the start-up phase: every log of this shard is open or quarantined.
func (s *Store) Start() {
	core.Assert(!s.started, "a store starts once")
	s.started = true
	if r := s.replay; !r.clean && r.sequence > 0 {
		// Also when nothing was cut: who looks at a start after a crash wants to read that it
		// was one, and what came back.
		s.log.Info("recovered after an end that was not clean", "logs", len(s.logs), "frames", s.stats.RecoveredFrames, "bytes", s.stats.RecoveredBytes,
			"torn_groups", r.tornGroups, "tails_cut", s.stats.TailsCut, "damages", s.stats.Damages+s.stats.JournalDamages,
			"took_ms", (s.ports.Clock.Monotonic()-s.mono)/1e6)
	}
	s.replay.source.close()
	s.replay = nil
	s.journal.start()
	s.scrubStart()
}

// Err is not nil once a journal write or sync has failed. Nothing in doubt is
// acked any more and the process must end.
func (s *Store) Err() error {
	if s.journal.err != nil {
		return s.journal.err
	}
	return nil
}

// CreateLog makes the log of a new partition. Its files appear with the first write.
func (s *Store) CreateLog(id LogIdentity, o LogOptions, owner LogOwner) *Log {
	core.Assert(s.logs[id.Partition] == nil, "partition ids are never reused")
	l := s.newLog(id, o, owner)
	l.term, l.generation, l.generationStart = 1, 1, 1
	l.openNeeded = true
	l.nextSegment = 1
	return l
}

func (s *Store) newLog(id LogIdentity, o LogOptions, owner LogOwner) *Log {
	l := &Log{store: s, id: id, options: o.withDefaults(), owner: owner, tailBytes: tailBytesMin}
	l.usedAt = s.mono
	s.logs[id.Partition] = l
	s.scrubber.ids = append(s.scrubber.ids, id.Partition)
	return l
}

// SetOptions changes a log's settings. Raising the durability first syncs what
// is at risk: by the prefix rule no later frame is acked as durable before.
func (s *Store) SetOptions(l *Log, o LogOptions) {
	raised := o.Durability > l.options.Durability
	l.options = o.withDefaults()
	if len(l.segments) > 0 {
		s.activate(l) // the new settings may want something removed of a log at rest
	}
	if raised {
		s.requestSyncAll(l)
	}
}

// Flush hands the turn's frames to the disk: it finishes the gathered frames,
// chooses between journal and segment, issues journal groups and segment writes.
func (s *Store) Flush(now int64) {
	s.mono = now
	if s.journal.err != nil {
		return
	}
	for _, l := range s.placeList {
		if c := l.chunks.last(); c != nil && c.frameOpen {
			s.frameClose(c)
		}
	}
	if len(s.dropping) > 0 {
		s.stepDrops()
	}
	s.cache.bound()
	s.placeDirect()
	s.journal.flush()
	s.settleFailed()
	if len(s.lookups) > 0 {
		s.stepLookups()
	}
	s.startWriters()
	if s.stopping {
		s.stopStep()
	}
}

// random is a stream of numbers for salts, unknown to clients.
func (s *Store) random() uint64 {
	s.slotSeed += 0x9e3779b97f4a7c15
	x := s.slotSeed
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ x>>31
}

// requestSyncAll asks for every frame of the log to become durable, also those that
// wait for the writer or for the choice of their way. Frames that it covers and
// that went through the journal cost a sync again when they reach the segment, so
// it is for the rare frame that must be durable behind others that need not be.
func (s *Store) requestSyncAll(l *Log) {
	s.requestSync(l)
	l.syncIndex = l.index
}

// requestSync asks for what the log has written to become durable. It is repeated
// by Tick for what is written later.
func (s *Store) requestSync(l *Log) {
	if l.pending.count == 0 {
		return
	}
	s.journal.syncWanted = true
	if last := l.lastIssued(); last > l.sealed.Index {
		l.syncIndex = max(l.syncIndex, last)
		s.kick(l)
	}
}

// requestFlush asks for the log's frames up to an index to be in the segment, synced.
func (s *Store) requestFlush(l *Log, upTo core.Index) {
	if upTo <= l.sealed.Index {
		return
	}
	l.flushIndex = max(l.flushIndex, upTo)
	l.syncIndex = max(l.syncIndex, upTo)
	s.kick(l)
}

// lastIssued is the index of the last frame handed to the writer, 0 for none in memory.
func (l *Log) lastIssued() core.Index {
	if l.issued == 0 {
		return 0
	}
	return l.chunks.at(l.issued - 1).lastIndex
}
