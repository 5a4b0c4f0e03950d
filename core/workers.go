package core

// Job is CPU-heavy or blocking work that a shard hands away: decompression, time
// lookup inside batches, compaction, scrubbing. It works on copies or on sealed
// files through an FS, never on the shard's own state.
type Job interface {
	// Run does the work on a worker.
	Run()
	// Done is called on the shard that submitted the job, after Run.
	Done()
}

// Workers is the port to the bounded worker pool.
type Workers interface {
	// Submit takes the job, or returns false when the pool's queue is full; the
	// caller keeps the job and tries again at its next turn.
	Submit(Job) bool
}
