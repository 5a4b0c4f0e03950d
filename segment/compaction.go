package segment

// compactTick is where compaction of sealed segments is scheduled.
func (s *Store) compactTick() {}
