package reactor

import "github.com/pulsemq/pulsemq/cluster"

// The steps of a start that shards take together.
const (
	stepPartitions = iota // every journal is replayed and the metadata recovered
	stepServe             // every partition is open
	stepCount
)

// steps keeps the shards' start in step: each waits at a gate until the starter
// has heard from all of them.
type steps struct {
	shards  int
	results chan error
	gates   [stepCount]chan struct{}
	quit    chan struct{}

	// Written before the gate to the partitions opens, only read after that.
	metadata *cluster.Metadata
}

func newSteps(shards int) *steps {
	s := &steps{shards: shards, results: make(chan error, shards*(stepCount+1)), quit: make(chan struct{})}
	for i := range s.gates {
		s.gates[i] = make(chan struct{})
	}
	return s
}

// done reports a shard's result of its step.
func (s *steps) done(err error) { s.results <- err }

// passed waits at a gate; false when the start was abandoned.
func (s *steps) passed(step int) bool {
	select {
	case <-s.gates[step]:
		return true
	case <-s.quit:
		return false
	}
}

// abandoned says whether the start was abandoned, for a step that takes long.
func (s *steps) abandoned() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// wait collects the results of all shards and returns the first failure, or
// ErrStopped when stop is closed before.
func (s *steps) wait(stop <-chan struct{}) error {
	for range s.shards {
		select { // a stop comes before results that are there as well
		case <-stop:
			return ErrStopped
		default:
		}
		select {
		case err := <-s.results:
			if err != nil {
				return err
			}
		case <-stop:
			return ErrStopped
		}
	}
	return nil
}

func (s *steps) open(step int) { close(s.gates[step]) }

func (s *steps) abandon() { close(s.quit) }
