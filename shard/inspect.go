package shard

import (
	"errors"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// decompressedBytesMax bounds what a batch may become when it is opened for a
// check: a bomb is refused there.
const decompressedBytesMax = 64 << 20

// inspection is the order in which a partition's produces go on while compressed
// records are opened on a worker: strictly the order of their arrival.
//
// Invariant: the first request is the one at the worker; it is one at a time.
type inspection struct {
	partition *partition
	held      core.Queue[mail.Request]
	job       inspectJob
	submitted bool
}

// inspectJob opens one batch. The worker only reads the slab, which nobody
// touches until the job is done.
type inspectJob struct {
	inspection *inspection
	batch      proto.Batch
	validate   bool // compression.validate: every record is checked
	compacted  bool // every record needs a key
	err        error
}

// inspectionNeeded says whether a worker has to open the batch. Uncompressed
// records are looked at here, where a topic needs it: the reactor has verified
// them, so that is a walk over memory that is in the cache.
func (p *partition) inspectionNeeded(r *mail.Request) (bool, *proto.Error) {
	config := &p.topic.Config
	compacted := config.Cleanup == core.CleanupCompact
	if !compacted && !config.CompressionValidate {
		return false, nil
	}
	batch := requestBatch(r)
	if batch.Codec() != proto.CodecNone {
		return true, nil
	}
	if !compacted {
		return false, nil
	}
	return false, p.inspectError(keysPresent(&p.machine.pools.records, batch))
}

// keysPresent refuses a record without a key: compaction keeps the newest of each key.
func keysPresent(it *proto.RecordIterator, batch proto.Batch) error {
	if err := it.Reset(batch, decompressedBytesMax); err != nil {
		return err
	}
	for n := 0; it.Next(); n++ {
		if it.Record().Key == nil {
			return proto.CodeInvalidRequest.Errorf("record %d of the batch has no key; a compacted topic keeps the newest record of each key, so every record needs one", n)
		}
	}
	return it.Err()
}

func (p *partition) inspectError(err error) *proto.Error {
	if err == nil {
		return nil
	}
	code, _ := proto.CodeOf(err)
	text := err.Error()
	if e := (*proto.Error)(nil); errors.As(err, &e) && e.Text != "" {
		text = e.Text // else the code's name would stand in the text again
	}
	return code.Errorf("topic %s: %s", p.topic.Name, text)
}

// Run opens the batch on a worker.
func (j *inspectJob) Run() {
	if j.validate {
		records, err := proto.Decompress(nil, j.batch.Codec(), j.batch.Records(), decompressedBytesMax)
		if err == nil {
			err = j.batch.ValidateDecompressed(records)
		}
		if j.err = err; err != nil {
			return
		}
	}
	if j.compacted {
		var it proto.RecordIterator // workers share nothing with the shard
		j.err = keysPresent(&it, j.batch)
	}
}

// Done goes on with the batch, and with those behind it that need no worker.
func (j *inspectJob) Done() {
	in := j.inspection
	p := in.partition
	r := in.held.Pop()
	in.submitted = false
	p.releaseHeld(&r)
	p.finish(&r, p.inspectError(j.err))
	j.err, j.batch = nil, nil
	p.runHeld()
}

// finish appends a held batch, unless the partition has changed meanwhile.
func (p *partition) finish(r *mail.Request, err *proto.Error) {
	if err == nil {
		var now *partition
		if now, err = p.machine.serve(r.Partition, r.LeaderEpoch); err == nil {
			core.Assert(now == p, "ids of partitions are not used again")
			err = p.appendBatch(r)
		}
	}
	if err != nil {
		r.Slab.Release()
		p.machine.refuseRequest(r, err)
	}
}

// startInspection puts the first batch of a queue on its way.
func (p *partition) startInspection(r *mail.Request) *proto.Error {
	p.inspect = &inspection{partition: p}
	p.inspect.job.inspection = p.inspect
	if err := p.hold(r); err != nil {
		p.inspect = nil
		return err
	}
	p.runHeld()
	return nil
}

// hold keeps a produce until those before it have been checked.
func (p *partition) hold(r *mail.Request) *proto.Error {
	if p.inspect.held.Len() >= heldPerPartitionMax {
		return errOverloadedCheck
	}
	if err := p.machine.admit(p, int64(r.Bytes)); err != nil {
		return err
	}
	p.inspect.held.Push(*r)
	p.pendingBytes += int64(r.Bytes)
	p.machine.memory.pending += int64(r.Bytes)
	return nil
}

func (p *partition) releaseHeld(r *mail.Request) {
	p.pendingBytes -= int64(r.Bytes)
	p.machine.memory.pending -= int64(r.Bytes)
}

// runHeld takes held produces until one needs a worker. When the pool is full the
// partition comes back at the next turn.
func (p *partition) runHeld() {
	in := p.inspect
	for in != nil && !in.submitted && in.held.Len() > 0 {
		front := in.held.Front()
		needed, err := p.inspectionNeeded(front)
		if needed && err == nil {
			config := &p.topic.Config
			in.job.batch, in.job.validate, in.job.compacted = requestBatch(front), config.CompressionValidate, config.Cleanup == core.CleanupCompact
			if in.submitted = p.machine.ports.Workers.Submit(&in.job); !in.submitted {
				p.machine.stalled.Push(p)
			}
			return
		}
		r := in.held.Pop()
		p.releaseHeld(&r)
		p.finish(&r, err)
	}
	if in != nil && in.held.Len() == 0 {
		p.inspect = nil
	}
}

// endHeld refuses what is held; the one at the worker is refused when it is back.
func (p *partition) endHeld(err *proto.Error) {
	if p.inspect == nil {
		return
	}
	keep := 0
	if p.inspect.submitted {
		keep = 1
	}
	held := &p.inspect.held
	for n := held.Len(); n > 0; n-- {
		r := held.Pop()
		if keep > 0 {
			keep--
			held.Push(r)
			continue
		}
		p.releaseHeld(&r)
		r.Slab.Release()
		p.machine.refuseRequest(&r, err)
	}
	if held.Len() == 0 {
		p.inspect = nil
	}
}
