package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/deadletter"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/queue"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// The way of a record that a queue group has given up: it is read, made a dead
// letter on a worker, sent to the shard of a partition of the dead-letter topic,
// and settled in its window once it is durable there. Several go together, in the
// order in which they died. What fails is tried again, for as long as it takes;
// other records of the window go on meanwhile.

const (
	// burialsAtOnce bounds the windows of a shard whose records are on their way: each
	// holds a chunk that was read and a batch.
	burialsAtOnce = 8

	// burialRecordsMax bounds the records of one burial.
	burialRecordsMax = 256

	// burialSpan is how far apart the records of one burial may lie.
	burialSpan = 4096

	// burialRetryMin and burialRetryMax are the waits after the first failure and after many.
	burialRetryMin = 100 * time.Millisecond
	burialRetryMax = 30 * time.Second
	// burialPause is the wait for room that other work of the shard takes up.
	burialPause = 5 * time.Millisecond
)

// mourned is the window that a burial works for.
type mourned interface {
	// dying appends the records on their way to the dead-letter topic, as queue.Window.AppendDying does.
	dying(list []queue.Burial, number uint64, most int) []queue.Burial
	// producer is the id under which the window's records are buried.
	producer() core.ProducerID
	// laid takes ops that end dying records. They are not applied when it returns: burial.stir
	// is called when they are, and burial.again when they are lost instead.
	laid([]queue.Op)
}

// burialState says where a burial is.
type burialState uint8

const (
	burialIdle    burialState = iota
	burialQueued              // in machine.burying.queue
	burialReading             // with the store
	burialMaking              // with a worker
	burialSent                // with the shard of the dead-letter topic
	burialWaiting             // for its timer
)

// burial takes the dying records of one window to the dead-letter topic.
//
// Invariant: it counts in machine.burying.active from reading to the answer.
type burial struct {
	partition *partition
	group     string
	window    mourned

	state    burialState
	ended    bool   // the window is gone: what is on its way finds nobody
	next     uint64 // burials with lower numbers are ended, or about to be
	unburied uint64 // none is begun while one with a lower number is dying: it has ended without a letter, in memory only
	lost     bool   // some that were about to end are not: begin at the first again
	exact    bool   // read from the first record on, not from the lowest
	failures int
	timer    timer

	records []queue.Burial // of this round
	read    segment.Read
	held    int64 // bytes reserved for the read
	job     burialJob
	number  uint64 // of the letter
}

// burying is what a machine keeps of its burials.
type burying struct {
	queue   core.Queue[*burial]
	active  int
	letters map[uint64]*burial // by the numbers of letters that are out
	number  uint64
}

func (b *burying) ready() bool { return b.queue.Len() > 0 && b.active < burialsAtOnce }

func newBurial(p *partition, group string, window mourned) *burial {
	b := &burial{partition: p, group: group, window: window}
	b.job.burial = b
	return b
}

// burialProducer is the id of a window among the producers of dead-letter topics:
// the same after every start, and another one for a window that follows it.
func burialProducer(partition core.PartitionID, group string, identity uint64) core.ProducerID {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(partition)), identity))
	_, _ = h.Write([]byte(group))
	return core.BurialProducerMin | core.ProducerID(h.Sum64()>>2)
}

// stir says that there are dying records, or that something has changed for them.
func (b *burial) stir() {
	if b.state == burialIdle && !b.ended {
		b.state = burialQueued
		b.partition.machine.burying.queue.Push(b)
	}
}

// again says that ops handed to laid are lost: their records are dying still.
func (b *burial) again() {
	b.lost = true
	b.stir()
}

// hurry says that what failed may do better now, as when the dead-letter topic is another.
func (b *burial) hurry() {
	if b.state == burialWaiting {
		b.partition.machine.wheel.disarm(&b.timer)
		b.failures = 0
		b.expire()
	}
}

// end says that the window is no more.
func (b *burial) end() {
	b.ended = true
	if b.state == burialWaiting {
		b.partition.machine.wheel.disarm(&b.timer)
		b.state = burialIdle
	}
}

// runBurials begins what there is room for.
func (m *Machine) runBurials() {
	for m.burying.ready() {
		b := m.burying.queue.Pop()
		b.state = burialIdle
		if !b.gone() {
			b.begin()
		}
	}
}

func (b *burial) gone() bool {
	p := b.partition
	return b.ended || p.gone || p.log == nil || p.machine.stopping
}

// begin reads the next records.
func (b *burial) begin() {
	p := b.partition
	m := p.machine
	if b.lost {
		b.lost, b.next, b.unburied = false, 0, 0
	}
	if b.unburied > 0 {
		// A letter behind one that has none says that all before it are buried. So it must be durable first that
		// there will be none: else a crash brings the record back, and it passes for buried.
		if b.records = b.window.dying(b.records[:0], 0, 1); len(b.records) > 0 && b.records[0].Number < b.unburied {
			return // stir comes when the ops are stored
		}
		b.unburied = 0
	}
	b.records = b.window.dying(b.records[:0], b.next, burialRecordsMax)
	if len(b.records) == 0 {
		return
	}
	switch {
	case p.topic.Config.Queue.DeadLetterTopic == "": // since they began to die
		b.keep()
		return
	case b.trimmed(&b.records[0]):
		b.forgo()
		return
	}
	if !m.readable(core.AnswerChunkBytesMax) {
		b.pause(burialPause)
		return
	}
	m.burying.active++
	b.held = core.AnswerChunkBytesMax
	m.memory.parcels += b.held
	b.state = burialReading
	b.read.Log, b.read.Offset, b.read.Limit = p.log, b.from(), p.log.EndOffset()
	b.read.BytesMax, b.read.Owner, b.read.Unseen = core.AnswerChunkBytesMax, b, true
	if m.store.Read(&b.read) {
		b.ReadDone(&b.read)
	}
}

func (b *burial) trimmed(r *queue.Burial) bool {
	return core.Offset(r.Offset) < b.partition.log.StartOffset()
}

// from is where to read: at the lowest of those from the first on that lie near
// together, of which the others are left for later; or at the first alone.
func (b *burial) from() core.Offset {
	low := b.records[0].Offset
	if b.exact {
		return core.Offset(low)
	}
	high := low
	for i, r := range b.records {
		if max(high, r.Offset)-min(low, r.Offset) > burialSpan {
			b.records = b.records[:i]
			break
		}
		low, high = min(low, r.Offset), max(high, r.Offset)
	}
	return max(core.Offset(low), b.partition.log.StartOffset())
}

// forgo ends the first records, which the log does not hold any more. No crash brings them back
// but one that takes a trim along that was about to be durable.
func (b *burial) forgo() {
	var ops []queue.Op
	for i := 0; i < len(b.records) && b.trimmed(&b.records[i]); i++ {
		ops = append(ops, queue.Op{Kind: queue.Settle, Base: b.records[i].Offset, Next: b.records[i].Offset + 1})
	}
	b.lay(ops)
}

// keep ends records that have no dead-letter topic to go to.
func (b *burial) keep() {
	ops := make([]queue.Op, len(b.records))
	for i, r := range b.records {
		ops[i] = queue.Op{Kind: queue.Bury, Base: r.Offset, Next: r.Offset + 1, Reason: r.Reason, Text: r.Text}
	}
	b.pass(ops)
}

// pass ends the round's first records without letters.
func (b *burial) pass(ops []queue.Op) {
	b.unburied = b.records[len(ops)-1].Number + 1
	b.lay(ops)
}

// lay hands the outcome of the round's first records over, an op for each.
func (b *burial) lay(ops []queue.Op) {
	b.next = b.records[len(ops)-1].Number + 1
	b.exact, b.failures = false, 0
	b.window.laid(ops)
	b.stir()
}

// ReadDone has dead letters made of what was read.
func (b *burial) ReadDone(r *segment.Read) {
	p := b.partition
	if b.gone() {
		b.over()
		return
	}
	first := core.Offset(b.records[0].Offset)
	var outside *segment.RangeError
	var corrupt *segment.CorruptError
	switch {
	case r.Err == nil && r.Bytes > 0:
		b.make()
	case r.Offset != first: // that may be of a record that has its turn later
		b.exact = true
		b.retry()
	case errors.As(r.Err, &corrupt):
		p.machine.stats.Corrupt++
		b.refuse(queue.Op{Kind: queue.Bury, Reason: queue.Damaged})
	case errors.As(r.Err, &outside):
		b.refuse(queue.Op{Kind: queue.Settle}) // trimmed
	case r.Err == nil && r.Next > first: // nothing but frames without records
		b.refuse(queue.Op{Kind: queue.Settle})
	default:
		b.fail()
	}
}

// make hands what was read to a worker.
func (b *burial) make() {
	p := b.partition
	m := p.machine
	view := m.ports.View()
	if view == nil { // the node is starting
		b.over()
		b.pause(burialPause)
		return
	}
	target := view.TopicByName(p.topic.Config.Queue.DeadLetterTopic)
	if target == nil { // the view is older than the configuration, or newer
		b.fail()
		return
	}
	j := &b.job
	j.target = target.Partitions[int(p.number)%len(target.Partitions)].ID
	j.origin = deadletter.Origin{Topic: p.topic.Name, Partition: uint32(p.number), Group: b.group}
	j.source, j.now, j.bytesMax = b.read.Slices, m.wall/int64(time.Millisecond), int(target.Config.MessageBytesMax)
	j.deaths = j.deaths[:0]
	for i, r := range b.records {
		if i > 0 && (r.Number != b.records[i-1].Number+1 || b.trimmed(&r)) {
			break // a batch has sequences without gaps
		}
		j.deaths = append(j.deaths, deadletter.Death{Offset: r.Offset, Attempts: uint32(r.Attempts), Reason: r.Reason.String(), Text: r.Text})
	}
	b.state = burialMaking
	if !m.ports.Workers.Submit(j) {
		b.over()
		b.pause(burialPause)
	}
}

// burialJob makes dead letters. The worker only reads what the read holds.
type burialJob struct {
	burial   *burial
	composer deadletter.Composer
	target   core.PartitionID
	origin   deadletter.Origin
	source   [][]byte
	deaths   []deadletter.Death
	now      int64
	bytesMax int
	made     deadletter.Composition
}

// Run works on a worker.
func (j *burialJob) Run() {
	j.made = j.composer.Compose(j.source, j.origin, j.deaths, j.now, j.bytesMax)
	j.made.Batch = bytes.Clone(j.made.Batch)
}

// Done sends the letters, or says what became of the first record instead.
func (j *burialJob) Done() {
	b := j.burial
	made := j.made
	j.made, j.source = deadletter.Composition{}, nil
	if b.gone() {
		b.over()
		return
	}
	switch made.Obstacle {
	case deadletter.NoObstacle:
		b.send(made.Batch)
	case deadletter.Gone:
		b.refuse(queue.Op{Kind: queue.Settle})
	case deadletter.Damaged:
		b.partition.machine.stats.Corrupt++
		b.refuse(queue.Op{Kind: queue.Bury, Reason: queue.Damaged})
	case deadletter.TooLarge:
		b.refuse(queue.Op{Kind: queue.Bury, Reason: queue.TooLarge})
	case deadletter.Elsewhere:
		if b.read.Offset == core.Offset(b.records[0].Offset) { // its whole batch was compacted away
			b.refuse(queue.Op{Kind: queue.Settle})
			return
		}
		b.exact = true
		b.retry()
	}
}

// send gives the batch to the shard of the dead-letter topic.
func (b *burial) send(batch proto.Batch) {
	p := b.partition
	m := p.machine
	b.letGo()
	batch.SetProducer(int64(b.window.producer()), 0, int32(b.records[0].Number&0x7fffffff))
	m.burying.number++
	b.number, b.state = m.burying.number, burialSent
	if m.burying.letters == nil {
		m.burying.letters = make(map[uint64]*burial)
	}
	m.burying.letters[b.number] = b
	l := mail.Letter{Kind: mail.LetterBury, From: m.options.Shard, Change: b.number, Partition: b.job.target, Burial: &mail.Burial{Batch: batch}}
	to := core.ShardOf(b.job.target, m.options.Shards)
	if to == m.options.Shard {
		m.bury(&l)
		return
	}
	m.letters.Push(letterOut{to, l})
}

// buried takes the answer to a letter.
func (m *Machine) buried(l *mail.Letter) {
	b := m.burying.letters[l.Change]
	core.Assert(b != nil && b.state == burialSent, "a letter is answered once")
	delete(m.burying.letters, l.Change)
	switch {
	case b.gone():
		b.over()
	case l.Burial.Err != nil:
		b.fail()
	default:
		n := l.Burial.Buried
		core.Assert(n > 0 && n <= len(b.records), "an answer is of what was sent")
		ops := make([]queue.Op, n)
		for i, r := range b.records[:n] {
			ops[i] = queue.Op{Kind: queue.Settle, Base: r.Offset, Next: r.Offset + 1}
		}
		m.stats.Buried += uint64(n)
		b.over()
		b.lay(ops)
	}
}

// refuse ends the round's first record, which cannot be buried.
func (b *burial) refuse(op queue.Op) {
	r := &b.records[0]
	op.Base, op.Next, op.Text = r.Offset, r.Offset+1, r.Text
	if op.Kind == queue.Settle {
		op.Text = ""
	}
	b.over()
	b.pass([]queue.Op{op})
}

// retry reads anew.
func (b *burial) retry() {
	b.over()
	b.stir()
}

// fail tries again after a wait that doubles.
func (b *burial) fail() {
	b.partition.machine.stats.BurialsFailed++
	b.over()
	wait := burialRetryMax
	if b.failures < 10 {
		wait = min(wait, burialRetryMin<<b.failures)
	}
	b.failures++
	b.pause(wait)
}

func (b *burial) pause(wait time.Duration) {
	m := b.partition.machine
	b.state = burialWaiting
	m.wheel.arm(&b.timer, b, m.now+int64(wait))
}

// expire ends a wait.
func (b *burial) expire() {
	b.state = burialIdle
	b.stir()
}

// over ends a round.
func (b *burial) over() {
	b.letGo()
	b.partition.machine.burying.active--
	b.state = burialIdle
}

// letGo gives back what was read.
func (b *burial) letGo() {
	b.read.Release()
	b.partition.machine.memory.parcels -= b.held
	b.held = 0
}
