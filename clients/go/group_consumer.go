package pulsemq

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// GroupConsumer is a member of a stream group: it reads the partitions that the group gives it, each of which is read by
// one member at a time, and commits how far they were processed. The group goes on where it has committed, with this
// member or another: a record is processed at least once, and again when a member ends between processing and commit.
//
// Membership runs in the background: a slow record costs nothing as long as the next Poll comes within GroupMaxPoll. One
// goroutine polls; every other method may be called by many.
type GroupConsumer struct {
	client *Client
	group  string
	config groupConfig
	reader *Consumer

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	joining    context.Context // ends with the context of Close
	abandon    context.CancelFunc
	goroutines sync.WaitGroup
	joinID     string // under which the member has asked to be taken in, of the goroutine that joins; empty: not asked

	events chan struct{} // has an element when a Poll that waits has to look again

	mu        sync.Mutex
	closed    bool
	fatal     error // why the member cannot go on
	told      []*PartitionError
	memberID  string
	joined    bool
	epoch     int64
	applied   int64 // version of the assignment that is in force
	owned     map[partKey]*groupPart
	handed    map[partKey]handedOut // returned by the last Poll, and not yet processed
	astray    []partKey             // of handed, whose partition went away before it was committed
	polling   bool                  // a Poll is under way
	polled    time.Time             // when the last one ended
	stuck     bool                  // it has left because of GroupMaxPoll
	asked     chan struct{}         // closed when the next Poll begins
	committed sync.Mutex            // one commit at a time: an older one never comes after a newer
}

// groupPart is a partition that the member has.
type groupPart struct {
	owner     int64
	processed int64 // offset of the next record to process; -1 none yet
	epoch     int32 // leader epoch of the record before it
	committed int64 // as last answered; -1 none
}

// handedOut is how far the application was given a partition.
type handedOut struct {
	offset int64
	epoch  int32
}

// ErrNoOffset says that the group has never committed to a partition, with GroupStartNone.
var ErrNoOffset = errors.New("pulsemq: the group has committed no offset")

// groupRetry is between attempts that failed.
var groupRetry = conn.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}

// NewGroupConsumer joins a group. It returns at once: what keeps it from joining is told by Poll when it is final, and
// tried again when it is not.
func (c *Client) NewGroupConsumer(group string, options ...GroupOption) (*GroupConsumer, error) {
	config := groupConfigDefault()
	for _, option := range options {
		option(&config)
	}
	if err := config.validate(group); err != nil {
		return nil, fmt.Errorf("pulsemq: %w", err)
	}
	reader, err := c.NewConsumer(config.consumer...)
	if err != nil {
		return nil, err
	}
	g := &GroupConsumer{
		client: c, group: group, config: config, reader: reader, events: make(chan struct{}, 1), applied: -1,
		owned: map[partKey]*groupPart{}, handed: map[partKey]handedOut{}, polled: time.Now(), asked: make(chan struct{}),
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.joining, g.abandon = context.WithCancel(context.Background())
	g.goroutines.Go(g.belong)
	if config.commit > 0 {
		g.goroutines.Go(g.autoCommit)
	}
	return g, nil
}

// Poll waits for records and returns those of one partition, in order and at least one. With it, the records of the Poll
// before count as processed. Errors are those of Consumer.Poll, and what keeps the member from its group for good.
func (g *GroupConsumer) Poll(ctx context.Context) ([]Record, error) {
	defer g.away()
	for {
		g.begin()
		if err := g.news(); err != nil {
			return nil, err
		}
		t, err := g.next(ctx)
		if err != nil {
			return nil, err
		}
		g.reader.mu.Lock()
		fresh := t.part.generation == t.generation
		if fresh {
			t.part.returned(&t, len(t.records))
		}
		g.reader.mu.Unlock()
		if !fresh || !g.hand(&t, len(t.records)) {
			continue
		}
		return t.records, nil
	}
}

// Records calls Poll for as long as the loop goes on. Each record counts as processed when the loop asks for the next
// one or ends. It ends by itself when the consumer is closed; when ctx ends its error comes last. A PartitionError is
// handed to the loop, which goes on if it wants to.
func (g *GroupConsumer) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(each func(*Record, error) bool) {
		yield := func(r *Record, err error) bool {
			g.away()
			return each(r, err)
		}
		defer g.away()
		for {
			g.begin()
			err := g.news()
			var t taken
			if err == nil {
				t, err = g.next(ctx)
			}
			var about *PartitionError
			switch {
			case errors.Is(err, ErrEndOfLog) || errors.Is(err, ErrClosed):
				return
			case errors.As(err, &about):
				if !yield(nil, err) {
					return
				}
				continue
			case err != nil:
				yield(nil, err)
				return
			}
			for i := range t.records {
				if !g.reader.handOut(&t, i) || !g.hand(&t, i+1) {
					break // given up, or sought
				}
				more := yield(&t.records[i], nil)
				g.begin()
				if !more || g.hasNews() {
					g.reader.putBack(&t, i+1)
					if more {
						break // the next round tells
					}
					return
				}
			}
		}
	}
}

// begin counts what was handed out as processed: the application asks for more.
func (g *GroupConsumer) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.polling = true
	for key, h := range g.handed {
		if p := g.owned[key]; p != nil && h.offset > p.processed {
			p.processed, p.epoch = h.offset, h.epoch
		}
	}
	clear(g.handed)
	g.astray = nil
	close(g.asked)
	g.asked = make(chan struct{})
}

// hasNews says whether news would return something.
func (g *GroupConsumer) hasNews() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed || g.fatal != nil || len(g.told) > 0
}

// news is what the application is to be told before it gets records. A partition's error is told once.
func (g *GroupConsumer) news() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return ErrClosed
	case g.fatal != nil:
		return g.fatal
	case len(g.told) > 0:
		told := g.told[0]
		g.told = g.told[1:]
		return told
	}
	return nil
}

// away notes that the application is at its own work.
func (g *GroupConsumer) away() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.polling, g.polled = false, time.Now()
}

// next waits for records, or for something to tell.
func (g *GroupConsumer) next(ctx context.Context) (taken, error) {
	for {
		inner, stop := context.WithCancelCause(ctx)
		done := make(chan struct{})
		go func() {
			select {
			case <-g.events:
				stop(errGroupEvent)
			case <-inner.Done():
			}
			close(done)
		}()
		t, err := g.reader.poll(inner)
		stop(nil)
		<-done
		if about := (*PartitionError)(nil); errors.As(err, &about) {
			g.skip(about)
		}
		if err == nil || !errors.Is(context.Cause(inner), errGroupEvent) || ctx.Err() != nil {
			return t, err
		}
		g.begin()
		if err := g.news(); err != nil {
			return taken{}, err
		}
	}
}

// skip follows the reader to where it goes on. Behind a place that a broker has lost its end up to, what was processed
// is gone, and other records come under those offsets: to commit them now would leave those out.
func (g *GroupConsumer) skip(about *PartitionError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := partKey{about.Topic, about.Partition}
	p := g.owned[key]
	switch {
	case p == nil || about.Stopped:
	case about.Next < p.processed:
		p.processed, p.epoch, p.committed = about.Next, -1, min(p.committed, about.Next)
	default:
		g.handed[key] = handedOut{about.Next, -1} // told is processed: the next one does not have to hear it again
	}
}

var errGroupEvent = errors.New("pulsemq: the group has something to tell")

func (g *GroupConsumer) event() {
	select {
	case g.events <- struct{}{}:
	default:
	}
}

// hand notes that records are the application's now; false when their partition is not the member's any more.
func (g *GroupConsumer) hand(t *taken, n int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := partKey{t.part.topic, t.part.number}
	if g.owned[key] == nil {
		return false
	}
	h := handedOut{t.records[n-1].Offset + 1, t.records[n-1].LeaderEpoch}
	if n == len(t.records) {
		h = handedOut{t.through, t.epoch}
	}
	g.handed[key] = h
	return true
}

// Commit commits what was processed, and with it what the last Poll returned. It waits until that is durable. When the
// partition was lost or given up meanwhile, it returns an ErrStaleEpoch: others may have the same records.
func (g *GroupConsumer) Commit(ctx context.Context) error {
	var failed []error
	g.mu.Lock()
	for _, key := range g.astray {
		failed = append(failed, ErrStaleEpoch.Errorf("topic %q partition %d is not this member's any more: what was read of it is not committed", key.topic, key.number))
	}
	for key, h := range g.handed {
		if p := g.owned[key]; p != nil && h.offset > p.processed {
			p.processed, p.epoch = h.offset, h.epoch
		}
	}
	g.mu.Unlock()
	return errors.Join(errors.Join(failed...), g.commit(ctx, nil))
}

// CommitOffset commits one partition by hand: offset is that of the next record to process.
func (g *GroupConsumer) CommitOffset(ctx context.Context, topic string, partition uint32, offset int64) error {
	key := partKey{topic, partition}
	g.mu.Lock()
	p := g.owned[key]
	if p == nil {
		g.mu.Unlock()
		return g.notOwned(topic, partition)
	}
	if offset > p.processed {
		p.processed, p.epoch = offset, -1
	}
	g.mu.Unlock()
	return g.commit(ctx, []partKey{key})
}

func (g *GroupConsumer) notOwned(topic string, partition uint32) error {
	return ErrInvalidRequest.Errorf("partition %d of topic %q is not this member's", partition, topic)
}

// commit commits what was processed of some partitions, of all when none are named.
func (g *GroupConsumer) commit(ctx context.Context, keys []partKey) error {
	g.committed.Lock()
	defer g.committed.Unlock()
	var commits []commit
	g.mu.Lock()
	for key, p := range g.owned {
		if (keys == nil || slices.Contains(keys, key)) && p.processed >= 0 && p.processed > p.committed {
			commits = append(commits, commit{key, p.owner, p.processed, p.epoch})
		}
	}
	g.mu.Unlock()
	if len(commits) == 0 {
		return nil
	}
	var failed []error
	for _, c := range g.client.commitOffsets(ctx, g.group, commits, false) {
		g.mu.Lock()
		p := g.owned[c.key]
		switch {
		case c.err == nil:
			if p != nil && p.owner == c.owner {
				p.committed = max(p.committed, c.offset)
			}
		case errors.Is(c.err, ErrOffsetOutOfRange) && p != nil:
			p.committed = max(p.committed, c.offset) // trimmed meanwhile: there is nothing to go back to
		default:
			failed = append(failed, fmt.Errorf("topic %q partition %d: %w", c.key.topic, c.key.number, c.err))
		}
		g.mu.Unlock()
		if staleMetadata(c.err) {
			g.client.cluster.RefreshLater(c.key.topic)
		}
		if errors.Is(c.err, ErrStaleEpoch) {
			g.drop([]partKey{c.key}, c.owner)
		}
	}
	return errors.Join(failed...)
}

// autoCommit commits from time to time. What fails is tried again with the next.
func (g *GroupConsumer) autoCommit() {
	ticker := time.NewTicker(g.config.commit)
	defer ticker.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-ticker.C:
			ctx, cancel := context.WithTimeout(g.ctx, max(g.config.commit, 5*time.Second))
			_ = g.commit(ctx, nil)
			cancel()
		}
	}
}

// Seek goes on at another place in a partition that the member has. What is committed does not go back: see
// Admin.SeekGroup.
func (g *GroupConsumer) Seek(ctx context.Context, topic string, partition uint32, to Start) error {
	key := partKey{topic, partition}
	g.mu.Lock()
	p := g.owned[key]
	if p != nil {
		delete(g.handed, key)
		p.processed = -1
	}
	g.mu.Unlock()
	if p == nil {
		return g.notOwned(topic, partition)
	}
	return g.reader.assign(ctx, topic, []uint32{partition}, to, true)
}

// Pause keeps a partition from being returned until Resume; it stays the member's.
func (g *GroupConsumer) Pause(topic string, partition uint32) error {
	return g.reader.Pause(topic, partition)
}

// Resume undoes Pause.
func (g *GroupConsumer) Resume(topic string, partition uint32) error {
	return g.reader.Resume(topic, partition)
}

// MemberID is the member's id in the group; it changes when the member has to join anew.
func (g *GroupConsumer) MemberID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.memberID
}

// Positions are those of the partitions that the member has.
func (g *GroupConsumer) Positions() []PartitionPosition { return g.reader.Positions() }

// Assignment is what the member has, by topic and number.
func (g *GroupConsumer) Assignment() []GroupPartition {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []GroupPartition
	for key, p := range g.owned {
		all = append(all, GroupPartition{key.topic, key.number, p.processed})
	}
	sortGroupPartitions(all)
	return all
}

func sortGroupPartitions(all []GroupPartition) {
	slices.SortFunc(all, func(a, b GroupPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// Close gives the partitions up, commits what was processed unless that is left to Commit, and leaves the group, so that
// others go on at once. What the last Poll returned counts as processed only after Commit or another Poll. It waits for the broker until ctx ends; a
// static member keeps its place for its session time-out.
func (g *GroupConsumer) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	g.mu.Unlock()
	defer g.abandon()
	defer context.AfterFunc(ctx, g.abandon)()
	g.cancel()
	g.event()
	g.goroutines.Wait()
	g.mu.Lock()
	member, epoch, joined := g.memberID, g.epoch, g.joined
	g.mu.Unlock()
	var err error
	if joined {
		g.mu.Lock()
		keys := make([]partKey, 0, len(g.owned))
		for key := range g.owned {
			keys = append(keys, key)
		}
		g.mu.Unlock()
		g.stopReading(keys)
		g.call(g.config.revoked, g.places(keys))
		if g.config.commit > 0 {
			err = g.commit(ctx, nil)
		}
		_, left := askCoordinator[proto.LeaveGroupResponse](ctx, g.client, g.group, &proto.LeaveGroupRequest{
			Group: g.group, MemberID: member, InstanceID: g.config.instance, MemberEpoch: epoch, Returning: g.config.instance != "",
		})
		if !errors.Is(left, ErrUnknownMember) && !errors.Is(left, ErrUnknownGroup) {
			err = errors.Join(err, left)
		}
	}
	return errors.Join(err, g.reader.Close())
}

func newMemberID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
