package reactor

import (
	"sync"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// jobsPerShardMax bounds the jobs of one shard that are queued, running or not
	// yet taken back.
	jobsPerShardMax = 64

	// jobsMax bounds what waits for a worker, of all shards together.
	jobsMax = 1024
)

// Pool is the bounded worker pool of a node.
type Pool struct {
	queue   chan shardJob
	waiting sync.WaitGroup
}

// shardJob is a job with where it is to be handed back.
type shardJob struct {
	job     core.Job
	workers *Workers
}

// NewPool starts the workers.
func NewPool(workers int) *Pool { return newPool(workers, jobsMax) }

func newPool(workers, queueMax int) *Pool {
	p := &Pool{queue: make(chan shardJob, queueMax)}
	for range workers {
		p.waiting.Add(1)
		go p.work()
	}
	return p
}

func (p *Pool) work() {
	defer p.waiting.Done()
	for j := range p.queue {
		j.run()
	}
}

func (j shardJob) run() {
	j.job.Run()
	j.workers.done(j.job)
}

// Close waits for the jobs that were taken. No shard may submit any more.
func (p *Pool) Close() {
	close(p.queue)
	p.waiting.Wait()
}

// Workers is one shard's port to the pool. Jobs are rare and long, so a lock at
// their end costs nothing that can be measured.
type Workers struct {
	pool  *Pool
	waker core.Waker

	taken int // shard's thread only: submitted and not handed back

	mu       sync.Mutex
	finished []core.Job
	spare    []core.Job
}

// Workers makes the port of the shard that the waker wakes.
func (p *Pool) Workers(waker core.Waker) *Workers { return &Workers{pool: p, waker: waker} }

// Submit takes the job, or returns false when the queue or the shard's share of it is full.
func (w *Workers) Submit(job core.Job) bool {
	if w.taken >= jobsPerShardMax {
		return false
	}
	select {
	case w.pool.queue <- shardJob{job, w}:
		w.taken++
		return true
	default:
		return false
	}
}

func (w *Workers) done(job core.Job) {
	w.mu.Lock()
	w.finished = append(w.finished, job)
	w.mu.Unlock()
	w.waker.Kick()
}

// reap hands ended jobs to each and says how many there were.
func (w *Workers) reap(each func(core.Job)) int {
	if w.taken == 0 {
		return 0
	}
	w.mu.Lock()
	jobs := w.finished
	w.finished = w.spare[:0]
	w.mu.Unlock()
	w.taken -= len(jobs)
	for i, job := range jobs {
		jobs[i] = nil
		each(job)
	}
	w.spare = jobs
	return len(jobs)
}

// ready reports whether a reap would find something.
func (w *Workers) ready() bool {
	if w.taken == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.finished) > 0
}
