package segment

// Stats are a store's counters and gauges. Counters only rise.
type Stats struct {
	Appends         uint64 // batches
	AppendBytes     uint64 // of batches
	Frames          uint64
	JournalGroups   uint64
	JournalBytes    uint64 // written, with padding
	JournalSyncs    uint64
	JournalRecycles uint64
	JournalCopied   uint64 // bytes of frames copied forward by recycling
	SegmentBytes    uint64 // written, with padding
	SegmentWrites   uint64
	SegmentSyncs    uint64
	DirectFrames    uint64 // frames that bypassed the journal
	ReadBytes       uint64 // from the disk
	ReadsCached     uint64
	ReadsDisk       uint64
	Rolls           uint64
	Failures        uint64 // segment writes or syncs that failed
	Busy            uint64 // appends refused because a queue was full
	Retained        uint64 // segments removed by retention or trim
	ScrubBytes      uint64 // of sealed files, read again
	ScrubRecords    uint64 // ranges of records found damaged by that
	ScrubFiles      uint64 // damaged places of segments that took no record
	ScrubIndexes    uint64 // index files found damaged, and made again
	ScrubStates     uint64 // state files found damaged
	ScrubPasses     uint64 // over all logs, ended
	Compactions     uint64 // passes ended
	CompactFailures uint64 // of them, those that changed nothing because they failed
	CompactRead     uint64 // bytes
	CompactWritten  uint64 // bytes
	CompactRemoved  uint64 // records
	StatesWritten   uint64
	IndexesRebuilt  uint64

	RecoveredFrames uint64 // that were replayed at the start
	RecoveredBytes  uint64 // of those frames
	UncleanStarts   uint64
	TailsCut        uint64 // partitions whose torn tail was cut
	Damages         uint64 // damaged ranges found
	JournalDamages  uint64
	Quarantined     uint64 // partitions or files kept aside

	// Gauges.
	Logs       int
	CacheBytes int64
	OpenFiles  int
	// ReadsUnderWay are those that wait for the disk, or for an index.
	ReadsUnderWay int
	JournalFree   int // journal files that hold nothing needed
	JournalLive   int
	RiskBytes     int64 // appended and not durable
	RiskSince     int64 // monotonic, the oldest of them; 0 none
	Full          bool
	ClockJumped   bool
	// ScrubBegan is the wall clock when the last ended pass began: what was sealed then
	// has been read again since. 0: no pass has ended yet.
	ScrubBegan int64
	// ScrubLeft is how many bytes the pass under way still has to read; 0 between passes.
	ScrubLeft int64
}

// WriteAmplification is how many bytes reached the disk per byte of batch.
func (s *Stats) WriteAmplification() float64 {
	if s.AppendBytes == 0 {
		return 0
	}
	return float64(s.JournalBytes+s.SegmentBytes) / float64(s.AppendBytes)
}

// Stats returns the counters and gauges of this moment.
func (s *Store) Stats() Stats {
	st := s.stats
	st.Logs = len(s.logs)
	st.CacheBytes = s.cache.bytes
	st.OpenFiles = s.files.open
	st.ReadsUnderWay = s.reads
	st.JournalFree, st.JournalLive = len(s.journal.free), len(s.journal.live)
	st.Full, st.ClockJumped = s.full, s.clockJumped
	st.ScrubBegan, st.ScrubLeft = s.scrubber.endedBegan, s.scrubLeft()
	for _, l := range s.unsyncedList {
		st.RiskBytes += l.unsynced
		if l.unsyncedSince != 0 && (st.RiskSince == 0 || l.unsyncedSince < st.RiskSince) {
			st.RiskSince = l.unsyncedSince
		}
	}
	return st
}
