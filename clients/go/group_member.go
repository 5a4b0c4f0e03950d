package pulsemq

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pulsemq/pulsemq/clients/go/internal/cluster"
	"github.com/pulsemq/pulsemq/clients/go/internal/conn"
	"github.com/pulsemq/pulsemq/proto"
)

// The part of a GroupConsumer that runs in the background: joining, signs of life, and partitions that come and go.

// belong keeps the member in its group until Close.
func (g *GroupConsumer) belong() {
	for failures := 0; g.ctx.Err() == nil; {
		if !g.waitForPoll() {
			return
		}
		assignment, err := g.join()
		if err == nil {
			failures = 0
			err = g.live(assignment)
		}
		switch {
		case g.ctx.Err() != nil:
			return
		case memberOver(err), errors.Is(err, errStuck):
			g.loseAll()
			continue
		case err != nil && !memberMayGoOn(err):
			g.loseAll()
			g.mu.Lock()
			g.fatal = err
			g.mu.Unlock()
			g.event()
			return
		}
		failures++
		select {
		case <-g.ctx.Done():
		case <-time.After(groupRetry.After(failures)):
		}
	}
}

// errStuck says that the application has not polled for too long.
var errStuck = errors.New("pulsemq: no Poll came within GroupMaxPoll")

// waitForPoll waits, after the member was stuck, for the application to come back.
func (g *GroupConsumer) waitForPoll() bool {
	g.mu.Lock()
	stuck, asked := g.stuck && !g.polling, g.asked // it may have come back while the member was leaving
	g.stuck = false
	g.mu.Unlock()
	if !stuck {
		return true
	}
	select {
	case <-asked:
		return true
	case <-g.ctx.Done():
		return false
	}
}

// join asks the coordinator to take the member in. An attempt that nobody answered may have been heard: the next one is
// under the same id, and Close lets it end, for who leaves has to know its epoch. Else a member that nobody is would keep
// partitions for a session time-out.
func (g *GroupConsumer) join() (*proto.GroupAssignment, error) {
	ctx, cancel := context.WithTimeout(g.joining, g.config.session)
	defer cancel()
	if g.joinID == "" {
		g.joinID = newMemberID()
	}
	id := g.joinID
	answer, err := askCoordinator[proto.JoinGroupResponse](ctx, g.client, g.group, g.config.joinRequest(g.group, GroupStream, id))
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && g.ctx.Err() == nil {
			err = errors.Join(ErrRequestTimeout, err)
		}
		return nil, err
	}
	g.joinID = ""
	g.mu.Lock()
	g.memberID, g.epoch, g.applied, g.joined = id, answer.MemberEpoch, -1, true
	g.mu.Unlock()
	return &answer.Assignment, nil
}

// live sends signs of life and applies assignments until the membership is over.
func (g *GroupConsumer) live(first *proto.GroupAssignment) error {
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	newest := make(chan *proto.GroupAssignment, 1)
	applied := make(chan struct{}, 1)
	var applier sync.WaitGroup
	defer applier.Wait()
	defer cancel()
	applier.Go(func() {
		for {
			select {
			case a := <-newest:
				g.apply(ctx, a, func() bool { return len(newest) > 0 })
				select {
				case applied <- struct{}{}:
				default:
				}
			case <-ctx.Done():
				return
			}
		}
	})
	newest <- first
	seen := first.Version
	heard := time.Now()
	for failures := 0; ; {
		g.mu.Lock()
		now, stuck := g.applied, !g.polling && time.Since(g.polled) > g.config.maxPoll
		g.mu.Unlock()
		if stuck {
			g.leaveStuck()
			return errStuck
		}
		if now != seen { // an assignment is being applied: the broker would answer at once
			select {
			case <-applied:
			case <-time.After(g.config.session / 4):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		answer, err := g.heartbeat(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			failures, heard = 0, time.Now()
			if a := answer.Assignment; a != nil && a.Version != seen {
				seen = a.Version
				select { // the older one need not be applied any more
				case <-newest:
				default:
				}
				newest <- a
			}
		case !memberMayGoOn(err) && !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			if time.Since(heard) > g.config.session {
				return ErrUnknownMember // others may have everything by now
			}
			failures++
			select {
			case <-time.After(groupRetry.After(failures)):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func (g *GroupConsumer) heartbeat(ctx context.Context) (*proto.HeartbeatResponse, error) {
	wait := g.config.heartbeatWait()
	g.mu.Lock()
	request := &proto.HeartbeatRequest{Group: g.group, MemberID: g.memberID, InstanceID: g.config.instance, MemberEpoch: g.epoch, Applied: g.applied, WaitMs: uint32(wait.Milliseconds())}
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, wait+g.config.session/2)
	defer cancel()
	return askCoordinator[proto.HeartbeatResponse](ctx, g.client, g.group, request)
}

// leaveStuck leaves the group because the application does not come back.
func (g *GroupConsumer) leaveStuck() {
	g.mu.Lock()
	g.stuck = true
	request := &proto.LeaveGroupRequest{Group: g.group, MemberID: g.memberID, InstanceID: g.config.instance, MemberEpoch: g.epoch}
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(g.ctx, g.config.session)
	defer cancel()
	_, _ = askCoordinator[proto.LeaveGroupResponse](ctx, g.client, g.group, request) // else its session ends
}

// apply gives up what is not in an assignment, commits it, and takes over what is new.
func (g *GroupConsumer) apply(ctx context.Context, a *proto.GroupAssignment, newer func() bool) {
	want := map[partKey]int64{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			want[partKey{t.Name, p.Partition}] = p.OwnerEpoch
		}
	}
	var gone []partKey
	g.mu.Lock()
	for key, p := range g.owned {
		if owner, ok := want[key]; !ok || owner != p.owner {
			gone = append(gone, key)
		}
	}
	g.mu.Unlock()
	if len(gone) > 0 {
		g.giveUp(ctx, gone)
	}
	g.mu.Lock()
	fresh := map[partKey]int64{}
	for key, owner := range want {
		if g.owned[key] == nil {
			fresh[key] = owner
		}
	}
	if ctx.Err() == nil {
		g.applied = a.Version // others may have what was given up
	}
	g.mu.Unlock()
	if len(fresh) > 0 {
		g.takeOver(ctx, fresh, newer)
	}
}

// giveUp stops reading partitions, waits until what was handed out of them is processed, and commits that.
func (g *GroupConsumer) giveUp(ctx context.Context, keys []partKey) {
	for _, key := range keys {
		_ = g.reader.Pause(key.topic, key.number)
	}
	by := time.After(g.config.rebalance * 3 / 4)
	for waiting := true; waiting; {
		g.mu.Lock()
		waiting = false
		for _, key := range keys {
			_, handed := g.handed[key]
			waiting = waiting || handed
		}
		asked := g.asked
		g.mu.Unlock()
		if waiting {
			select {
			case <-asked:
			case <-by: // others get it, and process again what is not done
				waiting = false
			case <-ctx.Done():
				return
			}
		}
	}
	g.stopReading(keys)
	g.call(g.config.revoked, g.places(keys))
	if g.config.commit > 0 {
		bound, cancel := context.WithTimeout(ctx, g.config.rebalance/4)
		_ = g.commit(bound, keys) // else what is not committed is processed again
		cancel()
	}
	g.forget(keys)
}

func (g *GroupConsumer) stopReading(keys []partKey) {
	for _, key := range keys {
		g.reader.Unassign(key.topic, key.number)
	}
}

func (g *GroupConsumer) forget(keys []partKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		delete(g.owned, key)
		if _, ok := g.handed[key]; ok {
			g.astray = append(g.astray, key)
			delete(g.handed, key)
		}
	}
}

func (g *GroupConsumer) places(keys []partKey) []GroupPartition {
	g.mu.Lock()
	defer g.mu.Unlock()
	var places []GroupPartition
	for _, key := range keys {
		if p := g.owned[key]; p != nil {
			places = append(places, GroupPartition{key.topic, key.number, p.processed})
		}
	}
	sortGroupPartitions(places)
	return places
}

func (g *GroupConsumer) call(f func([]GroupPartition), places []GroupPartition) {
	if f != nil && len(places) > 0 {
		f(places)
	}
}

// loseAll is for a member that was removed.
func (g *GroupConsumer) loseAll() {
	g.mu.Lock()
	keys := make([]partKey, 0, len(g.owned))
	for key := range g.owned {
		keys = append(keys, key)
	}
	g.joined = false
	g.mu.Unlock()
	g.drop(keys, -1)
}

// drop stops reading partitions that others have; with an owner epoch only those under it.
func (g *GroupConsumer) drop(keys []partKey, owner int64) {
	g.mu.Lock()
	keys = slices.DeleteFunc(slices.Clone(keys), func(key partKey) bool {
		p := g.owned[key]
		return p == nil || owner >= 0 && p.owner != owner
	})
	g.mu.Unlock()
	if len(keys) == 0 {
		return
	}
	g.stopReading(keys)
	places := g.places(keys)
	g.forget(keys)
	g.call(g.config.lost, places)
}

// taking is a partition on its way to this member.
type taking struct {
	key   partKey
	owner int64
}

// takeOver fences the former owners of partitions, and begins where the group has committed. What cannot be taken now is
// tried again until the next assignment.
func (g *GroupConsumer) takeOver(ctx context.Context, fresh map[partKey]int64, newer func() bool) {
	for failures := 0; len(fresh) > 0 && ctx.Err() == nil && !newer(); failures++ {
		if failures > 0 {
			select {
			case <-time.After(groupRetry.After(failures)):
			case <-ctx.Done():
				return
			}
		}
		var mu sync.Mutex
		var list, got []taking
		found := map[partKey]*proto.FetchOffsetsResult{}
		for key, owner := range fresh {
			list = append(list, taking{key, owner})
		}
		leaders := byLeader(ctx, g.client, list, func(t taking) partKey { return t.key }, func(t taking, err error) {
			g.client.cluster.RefreshLater(t.key.topic)
		})
		var all sync.WaitGroup
		for leader, theirs := range leaders {
			all.Go(func() {
				answer, err := g.own(ctx, leader, theirs)
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for i := range theirs {
					r := &answer.Items[i]
					switch r.Error.Code {
					case proto.CodeNone, proto.CodeOffsetOutOfRange:
						got = append(got, theirs[i])
						found[theirs[i].key] = r
					case proto.CodeStaleEpoch: // it is somebody else's by now
						delete(fresh, theirs[i].key)
					default:
						g.client.cluster.RefreshLater(theirs[i].key.topic)
					}
				}
			})
		}
		all.Wait()
		for _, t := range got {
			delete(fresh, t.key)
		}
		g.startAll(ctx, got, found)
	}
}

// own takes partitions of one leader over.
func (g *GroupConsumer) own(ctx context.Context, leader uint32, list []taking) (*proto.FetchOffsetsResponse, error) {
	request := &proto.FetchOffsetsRequest{Group: g.group}
	for _, t := range list {
		topic, err := g.client.cluster.Topic(ctx, t.key.topic)
		if err != nil {
			return nil, err
		}
		request.Items = append(request.Items, proto.FetchOffsetsItem{TopicID: topic.ID, Partition: t.key.number, OwnerEpoch: t.owner})
	}
	live, err := g.client.cluster.Link(cluster.RoleProduce, leader).Get(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := conn.Call[proto.FetchOffsetsResponse](ctx, live, request)
	if err == nil && len(answer.Items) != len(list) {
		err = ErrInternal.Errorf("the broker answered %d of %d partitions", len(answer.Items), len(list))
	}
	return answer, err
}

// commitStarts commits where the group begins in partitions that it has never committed to, when that is behind records
// that it never wants to read. Else it would seem to be behind by those until its first commit, and a member that ends
// before its first record would leave out what comes until the next member is there. What fails comes with that commit.
func (g *GroupConsumer) commitStarts(ctx context.Context, got []taking, found map[partKey]*proto.FetchOffsetsResult) {
	var keys []partKey
	g.mu.Lock()
	for _, t := range got {
		if p := g.owned[t.key]; p != nil && p.owner == t.owner && p.committed < 0 && p.processed > found[t.key].LogStartOffset { // and it was not sought
			keys = append(keys, t.key)
		}
	}
	g.mu.Unlock()
	if len(keys) == 0 {
		return
	}
	bound, cancel := context.WithTimeout(ctx, g.config.rebalance/4)
	defer cancel()
	_ = g.commit(bound, keys)
}

// startAll begins to read what was taken over.
func (g *GroupConsumer) startAll(ctx context.Context, got []taking, found map[partKey]*proto.FetchOffsetsResult) {
	var places []GroupPartition
	begin := map[partKey]handedOut{}
	unknown := map[string][]uint32{} // without a committed offset, by topic
	for _, t := range got {
		if r := found[t.key]; r.Committed >= 0 {
			begin[t.key] = handedOut{r.Committed, r.LastEpoch}
		} else {
			unknown[t.key.topic] = append(unknown[t.key.topic], t.key.number)
		}
	}
	for topic, numbers := range unknown {
		if g.config.startNone {
			g.mu.Lock()
			for _, n := range numbers {
				r := found[partKey{topic, n}]
				g.told = append(g.told, &PartitionError{Topic: topic, Partition: n, Err: ErrNoOffset, Stopped: true, Base: r.LogStartOffset, Next: r.LogStartOffset})
			}
			g.mu.Unlock()
			g.event()
			continue
		}
		offsets, err := g.reader.offsets(ctx, topic, numbers, g.config.start)
		if err != nil {
			g.mu.Lock()
			for _, n := range numbers {
				g.told = append(g.told, &PartitionError{Topic: topic, Partition: n, Err: err, Stopped: true})
			}
			g.mu.Unlock()
			g.event()
			continue
		}
		for i, n := range numbers {
			begin[partKey{topic, n}] = handedOut{offsets[i], -1}
		}
	}
	g.mu.Lock()
	for _, t := range got {
		at, ok := begin[t.key]
		if !ok {
			at = handedOut{-1, -1}
		}
		g.owned[t.key] = &groupPart{owner: t.owner, processed: at.offset, epoch: at.epoch, committed: found[t.key].Committed}
		places = append(places, GroupPartition{t.key.topic, t.key.number, at.offset})
	}
	g.mu.Unlock()
	sortGroupPartitions(places)
	g.call(g.config.assigned, places)
	g.commitStarts(ctx, got, found)
	for _, t := range got {
		if at, ok := begin[t.key]; ok {
			if topic := g.client.cluster.Cached(t.key.topic); topic != nil {
				g.reader.startAt(topic, t.key.number, at)
			}
		}
	}
}
