package shard

import (
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
	"github.com/pulsemq/pulsemq/segment"
)

// admin owns the metadata partition's log and the state that it makes.
//
// Invariants: metadata holds exactly the commands of the log that have been
// applied, all of them durable; queued holds those behind them, in log order;
// applied is the one whose letters are on their way, or nil. The published view
// is of the state after the last finished change, so no reactor sees a partition
// before its shard has it.
type admin struct {
	machine  *Machine
	log      *segment.Log
	metadata *cluster.Metadata
	queued   core.Queue[*change]
	applied  *change
	builder  proto.BatchBuilder
	ids      producerIDs

	serving   bool // recovery is over: replays no longer touch the state
	ready     bool // the node is registered and a view published
	replayErr error
}

// OpenMetadata recovers the metadata partition's log on the shard that owns it.
// It blocks on files: start-up only. With it, Metadata tells which partitions there are.
func (m *Machine) OpenMetadata() error {
	a := &admin{machine: m, metadata: cluster.NewMetadata(m.options.Metadata)}
	log, err := m.store.OpenLog(segment.LogIdentity{Partition: core.MetadataPartition}, metadataLogOptions, a)
	if err == nil {
		err = a.replayErr
	}
	if err == nil {
		err = metadataDamage(log)
	}
	if err != nil {
		return fmt.Errorf("recover the metadata: %w", err)
	}
	a.log, a.serving = log, true
	m.admin = a
	return nil
}

// metadataDamage refuses a metadata log with a hole. Partition ids follow from the
// order of the commands: without one of them, later topics would be given the ids,
// and with them the records, of others.
func metadataDamage(log *segment.Log) error {
	for _, d := range log.Damaged() {
		return fmt.Errorf("the metadata log is damaged at offsets [%d, %d), so topics cannot be told apart: restore the data folder from a copy: %w", d.Start, d.Next, d.Cause)
	}
	return nil
}

// metadataLogOptions keep the log short: each segment begins with a snapshot, so
// that old ones may go.
var metadataLogOptions = segment.LogOptions{
	Durability:     core.DurabilitySync,
	RetentionNanos: -1,
	RetentionBytes: 64 << 20,
	SegmentBytes:   16 << 20,
	SegmentNanos:   int64(30 * 24 * time.Hour),
}

// Metadata is the state on the shard that owns it, nil elsewhere. Start-up reads
// it before the shards serve.
func (m *Machine) Metadata() *cluster.Metadata {
	if m.admin == nil {
		return nil
	}
	return m.admin.metadata
}

// Boot registers this node with its data folder and then publishes the first
// view. Ready tells when that is done. It is called once, after all partitions
// are open and the store has started.
func (m *Machine) Boot() error {
	a := m.admin
	if a == nil {
		return nil
	}
	command, err := a.metadata.PlanRegister(m.options.Rules.Node, m.options.Incarnation)
	if err != nil {
		return fmt.Errorf("register this node: %w", err)
	}
	if command == nil {
		a.publish()
		return nil
	}
	if refused := a.submit(&change{admin: a, command: command}); refused != nil {
		return fmt.Errorf("register this node: %w", refused)
	}
	return nil
}

// Ready reports whether the shard may serve: on the metadata's shard, once the
// node is registered.
func (m *Machine) Ready() bool { return m.admin == nil || m.admin.ready }

func (a *admin) publish() {
	a.ready = true
	a.machine.ports.Out.Publish(a.metadata.View())
}

// receiveAdmin takes one command for the metadata.
func (m *Machine) receiveAdmin(r *mail.Request) {
	a := m.admin
	core.Assert(a != nil, "reactors send metadata commands to the shard that owns the metadata")
	if m.stopping {
		m.refuseRequest(r, errShuttingDown)
		return
	}
	var err *proto.Error
	switch body := r.Body.(type) {
	case *proto.CreateTopicRequest:
		err = a.create(r, body)
	case *proto.DeleteTopicRequest:
		err = a.delete(r, body)
	case *proto.AlterTopicRequest:
		err = a.alter(r, body)
	case *proto.InitProducerRequest:
		err = a.initProducer(r)
	case *proto.MetadataRequest:
		a.autoCreate(r, body)
	case *mail.GroupsTopicWanted:
		a.createGroups(r)
	default:
		err = proto.CodeUnknownCommand.Errorf("the metadata has no command of type %T", r.Body)
	}
	if err != nil {
		m.refuseRequest(r, err)
	}
}

func (a *admin) create(r *mail.Request, body *proto.CreateTopicRequest) *proto.Error {
	command, err := a.metadata.PlanCreate(body, a.machine.ports.TopicIDs(), a.machine.options.Rules)
	if err != nil {
		return err
	}
	response := &proto.CreateTopicResponse{Partitions: command.Partitions, Replicas: command.Replicas}
	if body.ValidateOnly {
		a.machine.answerAdmin(r, response)
		return nil
	}
	response.TopicID = command.Topic
	return a.submit(newChange(a, r, command, response, body.TimeoutMs))
}

func (a *admin) delete(r *mail.Request, body *proto.DeleteTopicRequest) *proto.Error {
	command, err := a.metadata.PlanDelete(body)
	if err != nil {
		return err
	}
	return a.submit(newChange(a, r, command, &proto.DeleteTopicResponse{TopicID: command.Topic}, body.TimeoutMs))
}

func (a *admin) alter(r *mail.Request, body *proto.AlterTopicRequest) *proto.Error {
	command, topic, err := a.metadata.PlanAlter(body, a.machine.options.Rules)
	if err != nil {
		return err
	}
	response := &proto.AlterTopicResponse{TopicID: topic.ID, Partitions: max(uint32(len(topic.Partitions)), command.Partitions)}
	if body.ValidateOnly {
		a.machine.answerAdmin(r, response)
		return nil
	}
	return a.submit(newChange(a, r, command, response, body.TimeoutMs))
}

// autoCreate makes those of the names that do not exist. Names that cannot be
// made are left out: the reactor finds that they are not there and says so.
func (a *admin) autoCreate(r *mail.Request, body *proto.MetadataRequest) {
	group := &changeGroup{}
	a.machine.await(&group.patience, r)
	for _, name := range body.Names {
		command, err := a.metadata.PlanCreate(&proto.CreateTopicRequest{Name: name}, a.machine.ports.TopicIDs(), a.machine.options.Rules)
		if err != nil {
			continue
		}
		c := &change{admin: a, command: command, group: group}
		if err := a.submit(c); err != nil {
			group.err = err
			break
		}
		group.left++
	}
	if group.left == 0 {
		group.answer()
	}
}

// createGroups makes the topic that keeps the groups. It may be there or on its way.
func (a *admin) createGroups(r *mail.Request) {
	group := &changeGroup{}
	a.machine.await(&group.patience, r)
	command, err := a.metadata.PlanGroups(a.machine.ports.TopicIDs(), a.machine.options.Rules)
	if err == nil {
		group.left = 1
		if err = a.submit(&change{admin: a, command: command, group: group}); err != nil {
			group.left = 0
		}
	}
	if err != nil && err.Code != proto.CodeTopicExists {
		group.err = err
	}
	if group.left == 0 {
		group.answer()
	}
}

// changeGroup is a request that needs several changes.
type changeGroup struct {
	patience
	left int
	err  *proto.Error
}

func (g *changeGroup) answer() {
	switch {
	case !g.end():
	case g.err != nil:
		g.machine.refuseRequest(&g.request, g.err)
	default:
		g.machine.answerAdmin(&g.request, nil)
	}
}

func (m *Machine) answerAdmin(r *mail.Request, body any) {
	m.answer = mail.Answer{Kind: mail.AnswerAdmin, Conn: r.Conn, ID: r.ID, Received: r.Received, LeaderEpoch: -1,
		Offset: -1, Timestamp: -1, Body: body}
	m.send(r.Reactor)
}

// submit appends a command to the log. It is applied when it is durable and all
// before it are done.
func (a *admin) submit(c *change) *proto.Error {
	if a.queued.Len() >= changesMax {
		return errOverloadedAdmin
	}
	next, err := a.append(c.command)
	if err != nil {
		return err
	}
	c.next = next
	if c.answered = c.request.Kind != mail.RequestAdmin; !c.answered {
		a.machine.wheel.arm(&c.timer, c, c.deadline)
	}
	a.queued.Push(c)
	return nil
}

// makesRoom says that a command is taken while the disk is full: deleting a topic and lowering its retention are the ways out.
func makesRoom(command cluster.Command) bool {
	switch command.(type) {
	case *cluster.TopicDelete, *cluster.TopicAlter:
		return true
	}
	return false
}

// append writes one command as a record of its own batch.
func (a *admin) append(command cluster.Command) (next core.Offset, refused *proto.Error) {
	m := a.machine
	a.builder.Reset(proto.CodecNone)
	record := proto.Record{Timestamp: max(0, m.wall/int64(time.Millisecond)), Value: cluster.AppendCommand(nil, command)}
	err := a.builder.Append(&record)
	core.Assert(err == nil, "a command fits a batch")
	batch, err := a.builder.Build()
	core.Assert(err == nil, "a batch of one record can be built")
	if len(batch) > core.BatchBytesMax {
		return 0, proto.CodeInvalidRequest.Errorf("the change takes %d bytes; allowed are %d", len(batch), core.BatchBytesMax)
	}
	// Behind the batch there is room for its padding.
	slab := m.ports.Slabs.Get(core.BatchRoomBytes + len(batch) + core.DiskAlignment)
	if slab == nil {
		return 0, errOverloadedTotal
	}
	copy(slab.Bytes[core.BatchRoomBytes:], batch)
	batch = proto.Batch(slab.Bytes[core.BatchRoomBytes : core.BatchRoomBytes+len(batch)])
	base := a.log.EndOffset()
	batch.SetBaseOffset(int64(base))
	batch.SetLeaderEpoch(int32(a.log.Term()))
	m.pools.entry = segment.Entry{
		Slab: slab, Start: core.BatchRoomBytes, Bytes: uint32(len(batch)), BaseOffset: base, Span: 1,
		MaxTimestamp: record.Timestamp, RecordsCRC: batch.RecordsCRC(), Level: core.DurabilitySync, AppendTime: m.wall,
		Reserve: makesRoom(command),
	}
	if err := m.store.Append(a.log, &m.pools.entry); err != nil {
		slab.Release()
		return 0, storageError(err)
	}
	return base + 1, nil
}

// run applies what is durable and sends letters, one change after the other.
func (a *admin) run() {
	for {
		if a.applied != nil && !a.applied.proceed() {
			return
		}
		if a.queued.Len() == 0 || (*a.queued.Front()).next > a.log.DurableOffset() {
			return
		}
		a.queued.Pop().apply()
	}
}

// busy reports whether letters wait for room in a ring.
func (a *admin) busy() bool { return a.applied != nil && len(a.applied.letters) > 0 }

func (a *admin) letterDone(l *mail.Letter) {
	core.Assert(a.applied != nil && a.applied.outcome.Epoch == l.Change, "a letter answers the change that is on its way")
	a.applied.pending--
}

// stop refuses what waits for ids; changes in the log are finished while the
// store stops.
func (a *admin) stop() { a.ids.refuse(a.machine, errShuttingDown) }

// Advanced is picked up by run, once in each turn.
func (a *admin) Advanced(*segment.Log) {}

// RolledBack fails the commands that were not durable. The state needs no
// rebuilding: it never held them.
func (a *admin) RolledBack(_ *segment.Log, next core.Offset, err error) {
	for n := a.queued.Len(); n > 0; n-- {
		c := a.queued.Pop()
		if c.next <= next {
			a.queued.Push(c)
			continue
		}
		c.fail(storageError(err))
	}
}

// Snapshot appends the state at the log's end: what was applied, and what is in
// the log behind it.
func (a *admin) Snapshot(b []byte) []byte {
	at := a.metadata.Clone()
	for i := range a.queued.Len() {
		_, _ = at.Apply((*a.queued.At(i)).command)
	}
	return at.AppendSnapshot(b)
}

// Restore begins a recovery.
func (a *admin) Restore(state []byte) error {
	if a.serving {
		return nil
	}
	a.metadata = cluster.NewMetadata(a.machine.options.Metadata)
	if len(state) == 0 {
		return nil
	}
	return a.metadata.Restore(state)
}

// Excerpt is what Replay needs of a frame: all of it.
func (a *admin) Excerpt(b []byte, _ *segment.FrameHeader, payload []byte) []byte {
	return append(b, payload...)
}

// Replay applies the commands of a frame. The first one that this build does not
// know ends the recovery: OpenMetadata reports it.
func (a *admin) Replay(h *segment.FrameHeader, payload []byte) {
	if a.serving || h.Kind != segment.FrameData || a.replayErr != nil {
		return
	}
	for len(payload) > 0 {
		batch, rest, err := proto.NextBatch(payload)
		core.Assert(err == nil, "the log replays whole batches")
		if a.replayErr = a.replayBatch(batch); a.replayErr != nil {
			return
		}
		payload = rest
	}
}

func (a *admin) replayBatch(batch proto.Batch) error {
	it := &a.machine.pools.records
	for _ = it.Reset(batch, core.BatchBytesMax); it.Next(); {
		command, err := cluster.ParseCommand(it.Record().Value)
		if err != nil {
			return fmt.Errorf("metadata log, offset %d: %w", it.Record().Offset, err)
		}
		_, _ = a.metadata.Apply(command) // a refusal was a refusal then, too
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("metadata log, batch at offset %d: %w", batch.BaseOffset(), err)
	}
	return nil
}
