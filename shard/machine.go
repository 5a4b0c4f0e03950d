package shard

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// Machine is one shard. See the package's documentation.
//
// Invariants: memory.pending is the sum of the batches of all queued acks, held
// produces and graves; memory.parcels is the sum of the parcels that are out.
type Machine struct {
	options Options
	ports   Ports
	store   *segment.Store

	now      int64 // monotonic, of this turn
	wall     int64 // nanoseconds since the Unix epoch, of this turn
	ticked   int64 // monotonic, when the store was last ticked
	requests int   // since the last Tick

	partitions map[core.PartitionID]*partition
	peers      map[peerKey]*peer
	admin      *admin // nil unless this shard owns the metadata partition

	wheel    wheel
	moved    core.Queue[*partition]    // whose log advanced since the last settle
	runnable core.Queue[*fetch]        // to be read in this turn or the next
	pushable core.Queue[*subscription] // with credit and unread data
	starved  core.Queue[*fetch]        // waiting for the shard's memory
	hungry   core.Queue[*subscription] // waiting for the shard's memory
	leasable core.Queue[*queueGroup]   // with members that wait, and perhaps records
	parched  core.Queue[*queueGroup]   // waiting for the shard's memory
	stalled  core.Queue[*partition]    // whose next check did not fit the workers' queue
	outboxes []outbox                  // per reactor
	letters  core.Queue[letterOut]     // answers to other shards that did not fit their ring

	cursorDirty      []*partition   // with entries for this turn's cursor frames
	cursorPartitions []*partition   // that groups read, in the order in which they began
	cursorPayload    []byte         // of one frame, used again
	queueBody        []byte         // of one entry of it
	queueParts       []queuePart    // of the frame that is being made
	wallBase         int64          // the wall clock when the monotonic one was 0, as it was at the start; milliseconds
	groupsDirty      []*coordinator // with records for this turn's frames
	forgetters       []*coordinator // with letters to send
	coordinators     []*coordinator // of this shard
	claims           []groupClaim   // of this turn
	lag              lagPass
	burying          burying
	forgets          uint64 // numbers what is asked of other shards

	memory   memory
	pools    pools
	answer   mail.Answer // filled and handed out by reference: an Answer on the stack would escape
	turn     int64       // counts runs of reads
	reads    int         // bytes read in this turn
	lookups  int         // look-ups waiting
	stats    Stats
	stopping bool
	fatal    error
}

// letterOut is a letter with its destination.
type letterOut struct {
	shard  core.ShardID
	letter mail.Letter
}

// outbox keeps the answers that did not fit a reactor's ring, in order.
type outbox struct{ answers core.Queue[mail.Answer] }

// New makes a machine without partitions. The store may not be started yet.
func New(ports Ports, options Options) *Machine {
	m := &Machine{
		options:    options.withDefaults(),
		ports:      ports,
		store:      ports.Store,
		partitions: make(map[core.PartitionID]*partition),
		peers:      make(map[peerKey]*peer),
	}
	m.outboxes = make([]outbox, max(1, m.options.Reactors))
	m.readClock()
	m.wallBase = (m.wall - m.now) / int64(time.Millisecond)
	m.wheel.init(m.now)
	m.stats.init()
	return m
}

func (m *Machine) readClock() {
	m.now, m.wall = m.ports.Clock.Monotonic(), m.ports.Clock.Now()
}

// Receive takes one request. The machine keeps no reference to r itself.
func (m *Machine) Receive(r *mail.Request) {
	m.stats.Requests++
	m.requests++
	if r.Received != 0 {
		m.stats.Ring.record(m.now - r.Received)
	}
	switch r.Kind {
	case mail.RequestProduce:
		m.produce(r)
	case mail.RequestFetch:
		m.fetch(r)
	case mail.RequestSubscribe:
		m.subscribe(r)
	case mail.RequestUnsubscribe:
		m.unsubscribe(r)
	case mail.RequestCredit:
		m.credit(r)
	case mail.RequestListOffset:
		m.listOffset(r)
	case mail.RequestDescribe, mail.RequestVerify:
		m.describe(r)
	case mail.RequestTrim:
		m.trim(r)
	case mail.RequestAdmin:
		m.receiveAdmin(r)
	case mail.RequestCursor:
		m.cursor(r)
	case mail.RequestCursors:
		m.cursors(r)
	case mail.RequestGroup:
		m.groupCommand(r)
	case mail.RequestLease:
		m.lease(r)
	case mail.RequestUnlease:
		m.unlease(r)
	case mail.RequestLeaseCredit:
		m.leaseCredit(r)
	case mail.RequestLeaseRecall:
		m.leaseRecall(r)
	case mail.RequestSettle:
		m.settleQueue(r)
	case mail.RequestQueue:
		m.describeQueue(r)
	case mail.RequestQueues:
		m.describeQueues(r)
	case mail.RequestReturn:
		m.parcelReturned(r.Parcel)
	case mail.RequestDisconnect:
		m.disconnect(r)
	default:
		core.Assert(false, "a reactor sends requests of known kinds")
	}
}

// Complete hands an ended disk operation to its owner.
func (m *Machine) Complete(op *core.DiskOp) { op.Owner.Complete(op) }

// JobDone hands an ended job back to who submitted it.
func (m *Machine) JobDone(job core.Job) { job.Done() }

// storeTickNanos is how often a busy shard lets the store look at its logs: it
// goes through hundreds of them, and its shortest interval is a millisecond.
const storeTickNanos = 1_000_000

// Tick reads the clock once and lets time pass.
func (m *Machine) Tick() {
	m.readClock()
	m.wheel.advance(m.now)
	if m.requests == 0 || m.now-m.ticked >= storeTickNanos {
		m.ticked = m.now
		m.store.Tick(m.now)
	}
	m.requests = 0
}

// Relieve gives memory up that is only kept for readers: a reactor found none for
// a batch.
func (m *Machine) Relieve() { m.store.Relieve() }

// Flush ends a turn: what advanced is answered, what can be read is read, what
// was appended goes to the disk, and answers go out.
func (m *Machine) Flush() {
	m.reads = 0
	m.settle()
	m.runReads()
	m.runBurials()
	if m.admin != nil {
		m.admin.run()
	}
	m.sendClaims()
	m.sendForgets()
	m.flushCursors()
	m.flushGroups()
	m.store.Flush(m.now)
	m.settle()
	m.drainOutboxes()
	m.drainLetters()
	if m.fatal == nil {
		m.fatal = m.store.Err()
	}
}

// Busy reports whether the next turn has work that no ring and no completion
// will announce, so that the loop must not park.
func (m *Machine) Busy() bool {
	if m.runnable.Len() > 0 || m.pushable.Len() > 0 || m.leasable.Len() > 0 || m.moved.Len() > 0 || m.letters.Len() > 0 || m.stalled.Len() > 0 || len(m.forgetters) > 0 || len(m.claims) > 0 ||
		m.burying.ready() || m.starvedFits() || m.hungryFits() || m.parchedFits() {
		return true
	}
	for i := range m.outboxes {
		if m.outboxes[i].answers.Len() > 0 {
			return true
		}
	}
	return m.admin != nil && m.admin.busy()
}

// Wait is how long the loop may park, in nanoseconds, at most limit.
func (m *Machine) Wait(limit int64) int64 { return m.wheel.wait(m.ports.Clock.Monotonic(), limit) }

// Quiet says that the machine does without turns for a while: the store does, and nothing
// waits for it to take what it has refused.
func (m *Machine) Quiet() bool {
	return len(m.groupsDirty)+len(m.cursorDirty) == 0 && m.store.Quiet()
}

// Err is why the process must end; nil while all is well.
func (m *Machine) Err() error { return m.fatal }

// settle answers what the logs that advanced allow, until nothing moves.
func (m *Machine) settle() {
	for m.moved.Len() > 0 {
		p := m.moved.Pop()
		p.moved = false
		if !p.gone && p.log != nil { // a log tells of its recovery before it is handed over
			p.settle()
		}
	}
}

// send hands m.answer to a reactor, or keeps a copy until its ring has room.
func (m *Machine) send(reactor uint8) {
	core.Assert(int(reactor) < len(m.outboxes), "a request names the reactor that sent it")
	box := &m.outboxes[reactor].answers
	if m.answer.Kind == mail.AnswerError || m.answer.Err != nil {
		m.stats.failed(m.answer.Err)
	}
	if box.Len() > 0 || !m.ports.Out.Answer(int(reactor), &m.answer) {
		box.Push(m.answer)
	}
	m.answer = mail.Answer{}
}

func (m *Machine) drainOutboxes() {
	for i := range m.outboxes {
		box := &m.outboxes[i].answers
		for box.Len() > 0 && m.ports.Out.Answer(i, box.Front()) {
			box.Pop()
		}
	}
}

func (m *Machine) drainLetters() {
	for m.letters.Len() > 0 {
		front := m.letters.Front()
		if !m.ports.Out.Letter(front.shard, &front.letter) {
			return
		}
		m.letters.Pop()
	}
}

// Letter takes one letter from another shard.
func (m *Machine) Letter(l *mail.Letter) {
	switch l.Kind {
	case mail.LetterForget:
		m.forget(l)
		return
	case mail.LetterForgot:
		m.forgot(l)
		return
	case mail.LetterBury:
		m.bury(l)
		return
	case mail.LetterBuried:
		m.buried(l)
		return
	case mail.LetterClaim:
		m.judgeClaim(l)
		return
	}
	if l.Kind == mail.LetterDone {
		core.Assert(m.admin != nil, "only the metadata's shard is told that a letter was obeyed")
		m.admin.letterDone(l)
		return
	}
	m.obey(l)
	m.letters.Push(letterOut{l.From, mail.Letter{Kind: mail.LetterDone, From: m.options.Shard, Change: l.Change, Partition: l.Partition}})
}

// obey carries out a change of the metadata on this shard.
func (m *Machine) obey(l *mail.Letter) {
	switch l.Kind {
	case mail.LetterOpen:
		if m.partitions[l.Partition] == nil { // a repeated letter changes nothing
			p := m.newPartition(l.Partition, l.Topic, l.Number)
			p.log = m.store.CreateLog(p.identity(), logOptions(l.Topic.Config), p)
			p.begin()
		}
	case mail.LetterConfigure:
		if p := m.partitions[l.Partition]; p != nil {
			p.configure(l.Topic)
		}
	case mail.LetterDelete:
		if p := m.partitions[l.Partition]; p != nil {
			p.drop()
		}
	default:
		core.Assert(false, "shards send letters of known kinds")
	}
}

// Place is a partition of a topic.
type Place struct {
	Topic  *core.Topic
	Number core.PartitionNumber
}

// Open recovers partitions together, and calls failed for each that cannot serve:
// it answers PARTITION_UNAVAILABLE, and the others are not concerned. It blocks.
func (m *Machine) Open(places []Place, failed func(error)) {
	partitions, logs := make([]*partition, len(places)), make([]segment.LogRequest, len(places))
	for i, at := range places {
		p := m.newPartition(at.Topic.Partitions[at.Number].ID, at.Topic, at.Number)
		partitions[i], logs[i] = p, segment.LogRequest{Identity: p.identity(), Options: logOptions(at.Topic.Config), Owner: p}
	}
	m.store.OpenLogs(logs)
	for i, p := range partitions {
		if err := cmp.Or(logs[i].Err, p.replayErr); err != nil {
			p.unavailable = err
			failed(fmt.Errorf("open partition %d of topic %s (id %d): %w", p.number, p.topic.Name, p.id, err))
			continue
		}
		p.log = logs[i].Log
		p.begin()
	}
}

// Serve ends the start-up phase: every partition of this shard is open. What the
// journal holds of those that could not be opened is set aside first, and frames of
// partitions that known does not know are put into quarantine. It blocks.
func (m *Machine) Serve(known func(core.PartitionID) bool) error {
	if err := m.store.Hold(known); err != nil {
		return err
	}
	if err := m.store.Quarantine(known); err != nil {
		return fmt.Errorf("put frames of unknown partitions into quarantine: %w", err)
	}
	m.store.Start()
	return nil
}

// Stop refuses new work and ends what waits; then the store writes and syncs
// what it has. The loop goes on with turns until Stopped.
func (m *Machine) Stop() {
	if m.stopping {
		return
	}
	m.stopping = true
	for _, p := range m.partitionsSorted() {
		p.stop()
	}
	if m.admin != nil {
		m.admin.stop()
	}
	m.store.Stop()
}

// Stopped reports whether everything is on disk and every answer is out.
func (m *Machine) Stopped() bool {
	if !m.stopping || !m.store.Stopped() {
		return false
	}
	for i := range m.outboxes {
		if m.outboxes[i].answers.Len() > 0 {
			return false
		}
	}
	return true
}
