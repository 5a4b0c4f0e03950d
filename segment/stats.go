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
	ScrubBytes      uint64 // of sealed segments, read again
	ScrubDamages    uint64 // places found damaged by that
	ScrubRounds     uint64 // over all logs
	Compactions     uint64 // passes ended
	CompactRead     uint64 // bytes
	CompactWritten  uint64 // bytes
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
	Logs        int
	CacheBytes  int64
	OpenFiles   int
	JournalFree int // journal files that hold nothing needed
	JournalLive int
	RiskBytes   int64 // appended and not durable
	RiskSince   int64 // monotonic, the oldest of them; 0 none
	Full        bool
	ClockJumped bool
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
	st.JournalFree, st.JournalLive = len(s.journal.free), len(s.journal.live)
	st.Full, st.ClockJumped = s.full, s.clockJumped
	for _, l := range s.unsyncedList {
		st.RiskBytes += l.unsynced
		if l.unsyncedSince != 0 && (st.RiskSince == 0 || l.unsyncedSince < st.RiskSince) {
			st.RiskSince = l.unsyncedSince
		}
	}
	return st
}
