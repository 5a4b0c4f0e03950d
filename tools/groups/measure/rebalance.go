package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// Rebalance has a group of many members read many partitions to which records come all the time, and lets a member join
// and leave. A record says when it was sent, so a partition that pauses shows as a record that was late.
type Rebalance struct {
	Members, Partitions, Rounds int           // a round is one that joins and one that leaves
	Every                       time.Duration // between two records of a partition
	Quiet                       time.Duration // for which nothing changes first, to compare with
}

// Change is what a member that joins or leaves costs.
type Change struct {
	What    string
	Settled time.Duration // until every partition was read again, evenly
	Stayed  time.Duration // by which the latest record of a partition that stays was late, in the change and the second behind it
	Moved   time.Duration // the same of those that move
}

const rebalanceTopic = "t"

// readers is who reads each partition, and how late its records were.
type readers struct {
	mu      sync.Mutex
	of      []int       // member, by partition; -1 nobody
	moved   []bool      // in this window
	count   map[int]int // partitions, by member
	changed chan struct{}

	worst    []atomic.Int64 // nanoseconds, by partition, in this window
	received atomic.Int64
}

func (r *readers) assign(member int, places []pulsemq.GroupPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range places {
		if before := r.of[p.Partition]; before >= 0 {
			r.count[before]--
		}
		r.of[p.Partition], r.moved[p.Partition] = member, true
		r.count[member]++
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *readers) release(member int, places []pulsemq.GroupPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range places {
		if r.of[p.Partition] == member {
			r.of[p.Partition], r.moved[p.Partition] = -1, true
			r.count[member]--
		}
	}
}

// settled waits until every partition is read and so many members share them evenly.
func (r *readers) settled(ctx context.Context, members int) error {
	for {
		r.mu.Lock()
		least, most, reading, free := len(r.of), 0, 0, 0
		for _, n := range r.count {
			if n > 0 {
				reading, least, most = reading+1, min(least, n), max(most, n)
			}
		}
		for _, member := range r.of {
			if member < 0 {
				free++
			}
		}
		changed := r.changed
		r.mu.Unlock()
		if free == 0 && reading == min(members, len(r.of)) && most-least <= 1 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the group has not settled: %d partitions are nobody's, %d of %d members read %d to %d", free, reading, members, least, most)
		}
	}
}

// window begins to watch anew.
func (r *readers) window() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.moved)
	for i := range r.worst {
		r.worst[i].Store(0)
	}
}

// pauses are how late the latest record of each partition was: of those that stayed, and of those that moved.
func (r *readers) pauses() (stayed, moved []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.worst {
		d := time.Duration(r.worst[i].Load())
		if r.moved[i] {
			moved = append(moved, d)
		} else {
			stayed = append(stayed, d)
		}
	}
	slices.Sort(stayed)
	slices.Sort(moved)
	return stayed, moved
}

// groupReader is one member that runs.
type groupReader struct {
	client *pulsemq.Client
	group  *pulsemq.GroupConsumer
	stop   context.CancelFunc
	loop   sync.WaitGroup
	err    error
}

func (r *Rebalance) join(ctx context.Context, b *Broker, to *readers, member int) (*groupReader, error) {
	client, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	g := &groupReader{client: client}
	g.group, err = client.NewGroupConsumer("g", pulsemq.GroupTopics(rebalanceTopic), pulsemq.GroupAutoCommit(time.Second),
		pulsemq.GroupOnAssigned(func(places []pulsemq.GroupPartition) { to.assign(member, places) }),
		pulsemq.GroupOnRevoked(func(places []pulsemq.GroupPartition) { to.release(member, places) }),
		pulsemq.GroupOnLost(func(places []pulsemq.GroupPartition) { to.release(member, places) }))
	if err != nil {
		client.Close()
		return nil, err
	}
	var reading context.Context
	reading, g.stop = context.WithCancel(context.Background())
	g.loop.Go(func() {
		for record, err := range g.group.Records(reading) {
			switch {
			case reading.Err() != nil:
				return
			case err != nil:
				g.err = err
				return
			}
			to.received.Add(1)
			late := time.Now().UnixNano() - int64(binary.BigEndian.Uint64(record.Value))
			if worst := &to.worst[record.Partition]; late > worst.Load() {
				worst.Store(late)
			}
		}
	})
	return g, nil
}

func (g *groupReader) leave(ctx context.Context) error {
	g.stop()
	g.loop.Wait()
	err := errors.Join(g.err, g.group.Close(ctx))
	return errors.Join(err, g.client.Close())
}

// Run measures on a broker that has no topic yet, and says how far it is. It returns every change.
func (r *Rebalance) Run(ctx context.Context, b *Broker, say Say) (changes []Change, err error) {
	client, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if _, err := client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: rebalanceTopic, Partitions: uint32(r.Partitions)}); err != nil {
		return nil, err
	}
	all := &readers{of: make([]int, r.Partitions), moved: make([]bool, r.Partitions), count: make(map[int]int), changed: make(chan struct{}), worst: make([]atomic.Int64, r.Partitions)}
	for i := range all.of {
		all.of[i] = -1
	}
	patience, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	members := make([]*groupReader, r.Members)
	began := time.Now()
	var joining sync.WaitGroup
	failed := make([]error, r.Members)
	for i := range members {
		joining.Go(func() { members[i], failed[i] = r.join(patience, b, all, i) })
	}
	joining.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	if err := all.settled(patience, r.Members); err != nil {
		return nil, err
	}
	say("%d members join at once, %d partitions: settled in %v", r.Members, r.Partitions, time.Since(began).Round(time.Millisecond))

	sending, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	var sendErr error
	sender.Go(func() { sendErr = r.send(sending, client) })
	defer sender.Wait()
	defer stop()
	watch := func(what string, counts bool, change func() error) error {
		all.window()
		before, began := all.received.Load(), time.Now()
		if err := change(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		took := time.Since(began)
		time.Sleep(max(r.Every*5, 250*time.Millisecond)) // a measured stretch: what was sent meanwhile arrives
		stayed, moved := all.pauses()
		rate := float64(all.received.Load()-before) / time.Since(began).Seconds()
		say("%-22s %8s   stay: %4d, latest record of each p50 %v p99 %v max %v   move: %3d, max %v   %.0f records/s", what, took.Round(time.Millisecond), len(stayed),
			part(stayed, 0.5), part(stayed, 0.99), part(stayed, 1), len(moved), part(moved, 1), rate)
		if counts {
			changes = append(changes, Change{what, took, part(stayed, 1), part(moved, 1)})
		}
		return nil
	}
	if err := watch("warming up", false, func() error { time.Sleep(min(r.Quiet, 2*time.Second)); return nil }); err != nil {
		return nil, err
	}
	if err := watch("at rest", false, func() error { time.Sleep(r.Quiet); return nil }); err != nil {
		return nil, err
	}
	for round := range r.Rounds {
		extra := r.Members + round
		var joined *groupReader
		err := watch(fmt.Sprint("round ", round+1, ": at rest"), false, func() error { time.Sleep(50 * time.Millisecond); return nil })
		if err != nil {
			return nil, err
		}
		err = watch(fmt.Sprint("round ", round+1, ": one joins"), true, func() (err error) {
			if joined, err = r.join(patience, b, all, extra); err != nil {
				return err
			}
			return all.settled(patience, r.Members+1)
		})
		if err != nil {
			return nil, err
		}
		victim := members[round%len(members)]
		members[round%len(members)] = joined
		err = watch(fmt.Sprint("round ", round+1, ": one leaves"), true, func() error {
			if err := victim.leave(patience); err != nil {
				return err
			}
			return all.settled(patience, r.Members)
		})
		if err != nil {
			return nil, err
		}
	}
	stop()
	sender.Wait()
	var leaving sync.WaitGroup
	failed = make([]error, r.Members)
	for i, m := range members {
		leaving.Go(func() { failed[i] = m.leave(patience) })
	}
	leaving.Wait()
	return changes, errors.Join(append(failed, sendErr)...)
}

// part is the value below which a part of the values lies.
func part(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))].Round(100 * time.Microsecond)
}

// send sends a record to every partition again and again, spread over the time between.
func (r *Rebalance) send(ctx context.Context, client *pulsemq.Client) error {
	producer, err := client.NewProducer(pulsemq.ProducerLinger(0))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed error
	began := time.Now()
	for sent := 0; ctx.Err() == nil; {
		due := int(float64(time.Since(began)) / float64(r.Every) * float64(r.Partitions))
		for ; sent < due && ctx.Err() == nil; sent++ {
			message := &pulsemq.Message{Topic: rebalanceTopic, Partition: pulsemq.PartitionNumber(uint32(sent % r.Partitions)),
				Value: binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))}
			err := producer.SendAsync(ctx, message, func(_ pulsemq.Result, err error) {
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			})
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
	}
	last, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(failed, producer.Close(last))
}
