package load

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/ledger"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
)

const (
	// missingWait is how long a reader that follows the log waits for what is not there, after the last record came.
	missingWait = 5 * time.Second

	// missingCheck is how often it looks.
	missingCheck = 5 * time.Millisecond
)

// ErrEnough is the cause with which what follows the log is stopped once there is nothing more to wait for.
var ErrEnough = errors.New("everything has been read")

// Reading is a set of fetchers over all partitions of a topic.
type Reading struct {
	fetchers []*Fetcher
	readers  []*Reader
}

// ReadingSpec says how to read a topic.
type ReadingSpec struct {
	Topic       *Topic
	Version     string // of this program, for HELLO
	Connections int
	InFlight    int
	Bytes       int     // that one FETCH asks for; 0 takes the default
	From        []int64 // by partition
	To          []int64 // by partition, for a reading that does not follow; nil for all there is
	Follow      bool
	Account     Account
	Template    *payload.Template
	Filler      []byte
	Rate        float64 // records per second over all connections that a reading asks for that does not follow; 0 flat out
	EndToEnd    bool    // measure from the time in each mark
	Hidden      bool    // what was sent may not be shown yet: it is still on its way, or was acknowledged before it is written
	Clock       Clock
}

// OpenReading connects.
func OpenReading(ctx context.Context, spec ReadingSpec) (*Reading, error) {
	shares, err := spec.Topic.SharesForReading(max(spec.Connections, len(spec.Topic.Leaders())))
	if err != nil {
		return nil, err
	}
	r := new(Reading)
	for _, share := range shares {
		l, err := dial(ctx, share.Leader, spec.Version)
		if err != nil {
			r.Close()
			return nil, err
		}
		reader := &Reader{Account: spec.Account, Template: spec.Template, Filler: spec.Filler}
		if spec.EndToEnd {
			reader.Latency = NewLatency()
		}
		var cursors []*Cursor
		for _, p := range share.Partitions {
			c := &Cursor{Partition: p, Next: spec.From[p.Number], End: math.MaxInt64}
			if spec.To != nil {
				c.End = spec.To[p.Number]
			}
			cursors = append(cursors, c)
		}
		r.readers = append(r.readers, reader)
		r.fetchers = append(r.fetchers, NewFetcher(FetcherSpec{
			Connection: Connection{Link: l, TopicID: spec.Topic.ID, Share: share, Clock: spec.Clock},
			Cursors:    cursors, InFlight: spec.InFlight, Bytes: spec.Bytes, Follow: spec.Follow, Reader: reader,
			Rate: spec.Rate / float64(len(shares)),
		}))
	}
	return r, nil
}

// Run reads until every partition is at its end, or ctx ends.
func (r *Reading) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, f := range r.fetchers {
		running.Go(func() {
			if err := f.Run(ctx); err != nil {
				cancel(err) // the first one is what went wrong
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, ErrEnough) {
		return err
	}
	return nil
}

// Close closes the connections.
func (r *Reading) Close() {
	for _, f := range r.fetchers {
		f.Close()
	}
}

// Tally adds up what was read.
func (r *Reading) Tally() *Tally {
	tallies := r.Tallies()
	sum := Merge(tallies)
	for _, reader := range r.readers {
		if reader.Latency != nil {
			if sum.EndToEnd == nil {
				sum.EndToEnd = NewLatency()
			}
			sum.EndToEnd.Merge(reader.Latency)
		}
	}
	return sum
}

// Tallies are those of the connections, for watching them.
func (r *Reading) Tallies() []*Tally {
	var tallies []*Tally
	for _, f := range r.fetchers {
		tallies = append(tallies, f.Tally())
	}
	return tallies
}

// Foreign is the number of records that no run of this program sent.
func (r *Reading) Foreign() (n int64) {
	for _, reader := range r.readers {
		n += reader.Foreign
	}
	return n
}

// awaitMissing returns once nothing is missing, or nothing has been found for missingWait, or ctx ends.
func awaitMissing(ctx context.Context, l *ledger.Ledger) {
	ticker := time.NewTicker(missingCheck)
	defer ticker.Stop()
	found, since := l.Found(), time.Now()
	for l.Missing() > 0 && time.Since(since) < missingWait {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n := l.Found(); n != found {
			found, since = n, time.Now()
		}
	}
}

// ReadBack reads what a run has written, from where the logs ended before it, and returns how fast that was. What was
// acknowledged as written has to be there at once; what may be hidden is given some time to appear.
func ReadBack(ctx context.Context, spec ReadingSpec, l *ledger.Ledger) (*Tally, error) {
	spec.Account = l
	first, err := OpenReading(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	if err := first.Run(ctx); err != nil {
		return nil, err
	}
	tally := first.Tally()
	if l.Missing() == 0 || !spec.Hidden {
		return tally, nil
	}
	spec.From, spec.To, spec.Follow = make([]int64, len(spec.From)), nil, true
	for _, f := range first.fetchers {
		for _, c := range f.spec.Cursors {
			spec.From[c.Number] = c.Next
		}
	}
	second, err := OpenReading(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer second.Close()
	if err := follow(ctx, second, func(ctx context.Context) error {
		awaitMissing(ctx, l)
		return nil
	}); err != nil {
		return nil, err
	}
	return Merge([]*Tally{tally, second.Tally()}), nil
}

// follow lets a reading follow the log while do runs, and stops it then.
func follow(ctx context.Context, r Runner, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	var readErr error
	running.Go(func() {
		if readErr = r.Run(ctx); readErr != nil {
			cancel(readErr)
		}
	})
	doErr := do(ctx)
	cancel(ErrEnough)
	running.Wait()
	if readErr != nil && !errors.Is(readErr, context.Canceled) {
		return readErr
	}
	return doErr
}
