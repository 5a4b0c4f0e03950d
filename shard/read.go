package shard

import (
	"errors"
	"strconv"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/segment"
)

// readableAt says why nothing can be read from an offset on.
func (p *partition) readableAt(offset core.Offset, lastEpoch core.LeaderEpoch) *proto.Error {
	if lastEpoch >= 0 {
		at, end, ok := p.log.Epochs().End(core.Term(lastEpoch), p.log.EndOffset())
		if ok && (core.LeaderEpoch(at) < lastEpoch || end < offset) {
			err := proto.CodeLogTruncated.Errorf(
				"the record before offset %d was read in leader epoch %d; here epoch %d ends at offset %d, what was read behind it no longer exists",
				offset, lastEpoch, at, end)
			err.Truncation = &proto.Truncation{Epoch: int32(at), EndOffset: int64(end)}
			return err
		}
	}
	if offset < p.log.StartOffset() || offset > p.log.EndOffset() {
		return p.outOfRange(offset)
	}
	return nil
}

func (p *partition) outOfRange(offset core.Offset) *proto.Error {
	earliest, latest := p.log.StartOffset(), p.highWatermark()
	err := proto.CodeOffsetOutOfRange.Errorf("offset %d is not in partition %d of topic %s, which holds %d up to but not including %d",
		offset, p.number, p.topic.Name, earliest, latest)
	err.Offsets = &proto.OffsetRange{Earliest: int64(earliest), Latest: int64(latest)}
	return err
}

// runReads serves fetches and pushes within the turn's share of bytes.
func (m *Machine) runReads() {
	m.turn++
	for n := m.stalled.Len(); n > 0; n-- {
		m.stalled.Pop().runHeld()
	}
	m.resume()
	for n := m.runnable.Len(); n > 0 && m.reads < readBytesPerTurn; n-- {
		f := m.runnable.Pop()
		f.queued = false
		f.run()
	}
	for n := m.pushable.Len(); n > 0 && m.reads < readBytesPerTurn; n-- {
		s := m.pushable.Pop()
		s.queued = false
		s.run()
	}
	for n := m.leasable.Len(); n > 0 && m.reads < readBytesPerTurn; n-- {
		m.leasable.Pop().run()
	}
}

// spent counts bytes against the turn's and the partition's share.
func (p *partition) spent(bytes int) {
	if p.readTurn != p.machine.turn {
		p.readTurn, p.readBytes = p.machine.turn, 0
	}
	p.readBytes += bytes
	p.machine.reads += bytes
}

// exhausted says that the partition has had its share of the turn.
func (p *partition) exhausted() bool {
	return p.readTurn == p.machine.turn && p.readBytes >= readBytesPerPartition
}

// readError is the answer to a read that failed.
func (p *partition) readError(r *segment.Read) *proto.Error {
	if p.gone {
		return proto.CodeUnknownTopic.Errorf("topic %s was deleted", p.topic.Name)
	}
	var outside *segment.RangeError
	if errors.As(r.Err, &outside) {
		return p.outOfRange(r.Offset)
	}
	if errors.Is(r.Err, segment.ErrStoreBusy) {
		return errOverloadedDisk
	}
	err := storageError(r.Err)
	if err.Code == proto.CodeCorruptRecord {
		err.Text = "topic " + p.topic.Name + ", partition " + strconv.FormatUint(uint64(p.number), 10) + ": " + err.Text
		p.machine.stats.Corrupt++
	}
	return err
}

// read counts what consumers got.
func (p *partition) read(r *segment.Read) {
	p.stats.MessagesOut += int64(r.Records)
	p.stats.BytesOut += int64(r.Bytes)
	p.machine.stats.MessagesOut += int64(r.Records)
	p.machine.stats.BytesOut += int64(r.Bytes)
}
