package shard

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment"
)

// partition is this shard's replica of one partition of a topic. An idle one is
// this struct alone: queues and tables are made with their first use.
//
// Invariants: log.StartOffset <= highWatermark() <= log.EndOffset;
// acks are in ascending order of their next offsets; a share is in
// its subscription's ready queue only while it has unread data.
type partition struct {
	machine *Machine
	id      core.PartitionID
	number  core.PartitionNumber
	topic   *core.Topic
	log     *segment.Log // nil when unavailable
	// unavailable says why the partition cannot serve.
	unavailable error
	gone        bool // deleted: late completions find nobody
	moved       bool // in machine.moved

	acks      ackQueue
	patience  ackPatience // with the acks
	producers producerTable
	cursors   *cursors // nil while no group reads the partition
	// coordinator keeps groups; of the partitions of core.GroupsTopic.
	coordinator *coordinator
	replayErr   error       // why a frame of the log could not be understood; checked after its recovery
	inspect     *inspection // checks of compressed records under way; nil while there are none
	waiters     []*fetch
	shares      []*share
	trims       []*trim
	graves      []grave

	pendingBytes  int64       // of batches not yet acked
	readBytes     int         // in the current turn
	readTurn      int64       // the turn that readBytes counts
	appendedBytes int64       // since the start; what waiters count from
	visible       core.Offset // the high watermark that waiters were last told
	hidden        core.Offset // acked below it, and not visible since the durability was raised

	stats PartitionStats
}

func (m *Machine) newPartition(id core.PartitionID, topic *core.Topic, number core.PartitionNumber) *partition {
	p := &partition{machine: m, id: id, topic: topic, number: number}
	p.producers.expiry = int64(m.options.ProducerExpiry)
	p.patience.partition = p
	if topic.Name == core.GroupsTopic {
		p.coordinator = newCoordinator(p)
		m.coordinators = append(m.coordinators, p.coordinator)
	}
	m.partitions[id] = p
	return p
}

// begin starts what needs the log. Recoveries may run side by side, and touch nothing but their own partition.
func (p *partition) begin() {
	if p.cursors != nil {
		p.listCursors()
		p.beginQueues()
	}
	if p.coordinator != nil {
		p.coordinator.start()
	}
}

func (p *partition) identity() segment.LogIdentity {
	return segment.LogIdentity{Partition: p.id, Topic: p.topic.ID, Number: p.number, Name: p.topic.Name}
}

// logOptions are the settings of a topic that storage acts on.
func logOptions(c core.TopicConfig) segment.LogOptions {
	bound := func(n int64) int64 {
		if n == math.MaxInt64 {
			return -1
		}
		return n
	}
	return segment.LogOptions{
		Durability:     c.Durability,
		FlushNanos:     int64(c.FlushTime),
		FlushBytes:     int64(c.FlushBytes),
		RetentionNanos: bound(int64(c.RetentionTime)),
		RetentionBytes: bound(int64(c.RetentionBytes)),
		SegmentBytes:   int64(c.SegmentBytes),
		SegmentNanos:   int64(c.SegmentTime),
		Compact:        c.Cleanup == core.CleanupCompact,
	}
}

// highWatermark is below which consumers may read: of a sync topic what is
// durable, of others what has been written.
func (p *partition) highWatermark() core.Offset {
	return p.log.ReachedOffset(max(p.topic.Config.Durability, core.DurabilityBatch))
}

func (p *partition) leaderEpoch() core.LeaderEpoch { return core.LeaderEpoch(p.log.Term()) }

// serve finds the partition of a request and checks the epoch that the client believes.
func (m *Machine) serve(id core.PartitionID, epoch core.LeaderEpoch) (*partition, *proto.Error) {
	p := m.partitions[id]
	switch {
	case p == nil:
		return nil, proto.CodeUnknownTopic.Errorf("there is no partition with the id %d any more: its topic was deleted; refresh the metadata", id)
	case m.stopping:
		return nil, errShuttingDown
	case p.unavailable != nil:
		return nil, proto.CodePartitionUnavailable.Errorf("partition %d of topic %s cannot serve: %v", p.number, p.topic.Name, p.unavailable)
	}
	if current := p.leaderEpoch(); epoch >= 0 && epoch != current {
		if epoch < current {
			return nil, proto.CodeFencedLeaderEpoch.Errorf("leader epoch %d has passed, the epoch is %d now: refresh the metadata", epoch, current)
		}
		return nil, proto.CodeUnknownLeaderEpoch.Errorf("leader epoch %d is not known here, the epoch is %d: try again", epoch, current)
	}
	return p, nil
}

// Advanced is the log's word that an offset moved. What follows from it is done
// when the turn settles, because the log may be in the middle of its own work.
func (p *partition) Advanced(*segment.Log) {
	if !p.moved {
		p.moved = true
		p.machine.moved.Push(p)
	}
}

// settle answers acks and trims, and wakes who waits for data.
func (p *partition) settle() {
	p.producers.durable(p.log.DurableOffset())
	p.settleAcks()
	p.settleTrims()
	p.settleCursors()
	p.settleGraves()
	if p.coordinator != nil {
		p.coordinator.settle()
	}
	if visible := p.highWatermark(); visible > p.visible {
		p.visible = visible
		p.wake()
	}
	p.wakeQueues()
}

// wake lets waiters that may have enough and subscriptions go on.
func (p *partition) wake() {
	kept := p.waiters[:0]
	for _, f := range p.waiters {
		if p.appendedBytes < f.wakeBytes {
			f.waiting = len(kept)
			kept = append(kept, f)
			continue
		}
		f.waiting = -1
		p.machine.wheel.disarm(&f.timer)
		f.enqueue()
	}
	clear(p.waiters[len(kept):])
	p.waiters = kept
	for _, s := range p.shares {
		s.wake()
	}
}

// RolledBack is the log's word that everything from next on is gone.
func (p *partition) RolledBack(_ *segment.Log, next core.Offset, err error) {
	p.visible, p.hidden = min(p.visible, next), min(p.hidden, next)
	p.producers.rollback(next)
	p.failAcks(next, storageError(err))
	p.endTrims(storageError(err)) // those that were durable have been answered, or are answered when tried again
	p.rollBackCursors(storageError(err))
	p.truncateQueues(next)
	p.failGraves(next, storageError(err))
	if p.coordinator != nil {
		p.coordinator.rollBack(p.log.LastIndex(), storageError(err))
	}
	p.machine.stats.RolledBack++
	// Who has read or waits beyond the new end is told that it was cut.
	for i := len(p.waiters) - 1; i >= 0; i-- {
		if f := p.waiters[i]; f.offset > next {
			f.leave()
			f.enqueue()
		}
	}
	for i := len(p.shares) - 1; i >= 0; i-- {
		h := p.shares[i]
		if err := p.readableAt(h.offset, h.lastEpoch); err != nil {
			h.fail(err)
		}
	}
	p.Advanced(p.log)
}

// Excerpt is what Replay needs of a frame: of data the headers of batches that a producer
// has numbered.
func (p *partition) Excerpt(b []byte, h *segment.FrameHeader, payload []byte) []byte {
	if h.Kind != segment.FrameData {
		return append(b, payload...)
	}
	for len(payload) > 0 {
		batch, rest, err := proto.NextBatch(payload)
		core.Assert(err == nil, "the log replays whole batches")
		if batch.ProducerID() != proto.ProducerIDNone {
			b = append(b, batch[:proto.BatchHeaderBytes]...)
		}
		payload = rest
	}
	return b
}

// Replay learns from a frame what append would have.
func (p *partition) Replay(h *segment.FrameHeader, excerpt []byte) {
	switch {
	case h.Kind == segment.FrameCursor && p.coordinator != nil:
		if p.replayErr == nil {
			p.replayErr = p.coordinator.replay(excerpt)
		}
		return
	case h.Kind == segment.FrameCursor:
		p.replayCursors(h, excerpt)
		return
	case h.Kind != segment.FrameData:
		return
	}
	for ; len(excerpt) > 0; excerpt = excerpt[proto.BatchHeaderBytes:] {
		batch := proto.Batch(excerpt[:proto.BatchHeaderBytes])
		p.producers.append(producedBatchOf(batch), core.Offset(batch.BaseOffset()), h.AppendTime)
	}
}

// configure takes a changed configuration.
func (p *partition) configure(topic *core.Topic) {
	p.topic = topic
	if p.log != nil {
		p.store().SetOptions(p.log, logOptions(topic.Config))
		if visible := p.highWatermark(); visible < p.visible {
			// A raised durability takes the high watermark back to what is synced, and who
			// waits for what lies behind it is told when it comes again.
			p.visible, p.hidden = visible, max(p.visible, p.hidden)
		}
		p.hurryBurials()
		p.wakeQueues()    // a larger window, or more attempts
		p.Advanced(p.log) // a lower durability may already be reached
	}
}

func (p *partition) store() *segment.Store { return p.machine.store }

// drop deletes the partition. Whoever waits is told that it is gone.
func (p *partition) drop() {
	gone := proto.CodeUnknownTopic.Errorf("topic %s was deleted", p.topic.Name)
	p.end(gone)
	p.gone = true
	if i := slices.Index(p.machine.cursorPartitions, p); i >= 0 {
		p.machine.cursorPartitions = slices.Delete(p.machine.cursorPartitions, i, i+1)
		p.machine.lag.dropped(i)
	}
	if i := slices.Index(p.machine.coordinators, p.coordinator); i >= 0 {
		p.machine.coordinators = slices.Delete(p.machine.coordinators, i, i+1)
	}
	delete(p.machine.partitions, p.id)
	if p.log != nil {
		p.store().DropLog(p.log, func() {})
	}
}

// stop ends what waits for data; acks are still answered while the store stops.
func (p *partition) stop() {
	p.endReaders(errShuttingDown)
	p.endHeld(errShuttingDown)
	if p.coordinator != nil {
		p.coordinator.end(errShuttingDown)
	}
}

// end answers everything that waits with an error.
func (p *partition) end(err *proto.Error) {
	p.failAcks(-1, err)
	p.endHeld(err)
	p.endReaders(err)
	p.endTrims(err)
	p.failCursors(err)
	p.failGraves(-1, err)
	if p.coordinator != nil {
		p.coordinator.end(err)
	}
}

func (p *partition) endReaders(err *proto.Error) {
	for _, f := range p.waiters {
		f.waiting = -1
		p.machine.wheel.disarm(&f.timer)
		f.fail(err)
	}
	p.waiters = nil
	for len(p.shares) > 0 {
		p.shares[len(p.shares)-1].fail(err)
	}
	p.endQueues(err)
}

// partitionsSorted are the partitions in ascending order of ids.
func (m *Machine) partitionsSorted() []*partition {
	sorted := make([]*partition, 0, len(m.partitions))
	for _, p := range m.partitions {
		sorted = append(sorted, p)
	}
	slices.SortFunc(sorted, func(a, b *partition) int { return cmp.Compare(a.id, b.id) })
	return sorted
}

// storageError turns what the store says into an answer.
func storageError(err error) *proto.Error {
	var corrupt *segment.CorruptError
	switch {
	case errors.Is(err, core.ErrDiskFull):
		return errStorageFull
	case errors.Is(err, segment.ErrStoreBusy):
		return errOverloadedStore
	case errors.Is(err, core.ErrDiskFiles): // such as of a look-up that needs a segment's index
		return errOverloadedFiles
	case errors.Is(err, segment.ErrStoreStopping):
		return errShuttingDown
	case errors.Is(err, segment.ErrLogDropped):
		return proto.CodeUnknownTopic.Errorf("the topic was deleted")
	case errors.As(err, &corrupt):
		e := proto.CodeCorruptRecord.Errorf("%v", corrupt)
		e.Damage = &proto.DamagedRange{BaseOffset: int64(corrupt.Start), NextOffset: int64(corrupt.Next)}
		return e
	}
	return proto.CodeStorageError.Errorf("the disk failed: %v; nothing was acknowledged, try again", err)
}
