package shard

import (
	"time"

	"github.com/pulsemq/pulsemq/cluster"
	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// change is one metadata command from its append until every shard has obeyed
// and the view that shows it is published.
type change struct {
	admin    *admin
	timer    timer
	request  mail.Request // of the client; kind 0 when the broker asked itself
	group    *changeGroup // when the request needs several changes
	command  cluster.Command
	response any
	deadline int64
	answered bool

	next    core.Offset // in the metadata log, after the command
	outcome cluster.Change
	letters []letterRun // still to send
	pending int         // letters sent to other shards and not yet answered
}

// letterRun is a letter for each of the topic's partitions [next, end).
type letterRun struct {
	kind      mail.LetterKind
	next, end int
}

func newChange(a *admin, r *mail.Request, command cluster.Command, response any, timeoutMillis uint32) *change {
	wait := time.Duration(timeoutMillis) * time.Millisecond
	if wait == 0 {
		wait = a.machine.options.RequestTimeout
	}
	return &change{admin: a, request: *r, command: command, response: response, deadline: a.machine.now + int64(wait)}
}

// apply changes the state, which is durable in the log, and lists the letters.
func (c *change) apply() {
	a := c.admin
	outcome, err := a.metadata.Apply(c.command)
	c.outcome = outcome
	if err != nil {
		c.fail(err)
		return
	}
	if topic := outcome.Topic; topic != nil {
		before, now := outcome.PartitionsBefore, len(topic.Partitions)
		switch {
		case outcome.Deleted:
			c.letters = append(c.letters, letterRun{mail.LetterDelete, 0, now})
		case outcome.Configured:
			c.letters = append(c.letters, letterRun{mail.LetterConfigure, 0, before})
			fallthrough
		default:
			c.letters = append(c.letters, letterRun{mail.LetterOpen, before, now})
		}
	}
	a.applied = c
	if _, ok := c.command.(*cluster.ProducerReserve); ok {
		a.ids.reserved(a.machine, outcome)
	}
}

// proceed sends letters while there is room, and ends the change when all are
// obeyed. It returns false while there is something left to do.
func (c *change) proceed() bool {
	a := c.admin
	for budget := lettersPerTurnMax; len(c.letters) > 0; {
		run := &c.letters[0]
		if run.next == run.end {
			c.letters = c.letters[1:]
			continue
		}
		if budget == 0 || !c.send(run.kind, run.next) {
			return false
		}
		budget--
		run.next++
	}
	if c.pending > 0 {
		return false
	}
	a.applied = nil
	a.publish()
	a.machine.wheel.disarm(&c.timer)
	switch {
	case c.group != nil:
		c.groupDone(nil)
	case !c.answered:
		c.answered = true
		a.machine.answerAdmin(&c.request, c.response)
	}
	return true
}

// send hands the letter of one partition to its shard.
func (c *change) send(kind mail.LetterKind, number int) bool {
	m := c.admin.machine
	letter := mail.Letter{
		Kind: kind, From: m.options.Shard, Change: c.outcome.Epoch,
		Partition: c.outcome.Topic.Partitions[number].ID, Number: core.PartitionNumber(number), Topic: c.outcome.Topic,
	}
	shard := core.ShardOf(letter.Partition, m.options.Shards)
	if shard == m.options.Shard {
		m.obey(&letter)
		return true
	}
	if !m.ports.Out.Letter(shard, &letter) {
		return false
	}
	c.pending++
	return true
}

// fail answers a command that was refused or lost.
func (c *change) fail(err *proto.Error) {
	a := c.admin
	a.machine.wheel.disarm(&c.timer)
	switch {
	case c.group != nil:
		c.groupDone(err)
	case !c.answered:
		c.answered = true
		a.machine.refuseRequest(&c.request, err)
	}
	if _, ok := c.command.(*cluster.ProducerReserve); ok {
		a.ids.refuse(a.machine, err)
	}
	if _, ok := c.command.(*cluster.NodeRegister); ok {
		a.machine.fatal = err
	}
}

// groupDone counts the change off its request. A name that somebody else has
// taken meanwhile is there, which is all that was asked for.
func (c *change) groupDone(err *proto.Error) {
	if err != nil && err.Code != proto.CodeTopicExists {
		c.group.err = err
	}
	if c.group.left--; c.group.left == 0 {
		c.group.answer()
	}
}

// expire answers a client that will not wait longer; the change goes on.
func (c *change) expire() {
	if !c.answered {
		c.answered = true
		c.admin.machine.refuseRequest(&c.request, errTimedOutRequest)
	}
}
