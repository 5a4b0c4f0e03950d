package arena

// Gauges says how an arena's budget is used.
type Gauges struct {
	ReservedBytes int64 // the budget, in whole blocks
	InUseBytes    int64 // slabs that are out or on their way home
	TouchedBytes  int64 // blocks whose memory may be resident
}

func (s *space) gauges() Gauges {
	return Gauges{
		ReservedBytes: int64(len(s.bytes)),
		InUseBytes:    s.inUse.Load(),
		TouchedBytes:  s.touched.Load(),
	}
}
