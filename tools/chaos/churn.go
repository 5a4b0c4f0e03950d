package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// churnNames is how many names take turns.
const churnNames = 5

// churn creates topics, writes a little to each and deletes them, over and over under the same few names.
type churn struct {
	client  *pulsemq.Client
	turn    int
	topics  [churnNames]churned
	crashes atomic.Int64 // of the broker
}

// churned is what is known of the topic of one name.
type churned struct {
	state  churnState
	id     pulsemq.TopicID
	offset int64 // of an acknowledged message, -1 for none
	value  string
	doubt  int64 // how often the broker had crashed when its call had no answer
}

type churnState uint8

const (
	churnAbsent  churnState = iota
	churnPresent            // its creation was acknowledged
	// A call about it had no answer. The broker may still come to do it, as long as the process that was asked lives,
	// also after it was asked something else: a topic whose creation had no answer is not there when it is deleted, and
	// there later. So a name in doubt rests until that process is gone.
	churnDoubt
)

func churnName(i int) string { return fmt.Sprintf("churn-%d", i) }

func (c *churn) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.turn++
		i := c.turn % churnNames
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		c.step(call, i)
		cancel()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (c *churn) step(ctx context.Context, i int) {
	t := &c.topics[i]
	if t.state == churnDoubt && t.doubt == c.crashes.Load() {
		return
	}
	if t.state == churnAbsent {
		created, err := c.client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: churnName(i), Partitions: 3})
		if err != nil {
			t.state, t.doubt = churnDoubt, c.crashes.Load()
			return
		}
		*t = churned{state: churnPresent, id: created.ID, offset: -1}
		p, err := c.client.NewProducer(pulsemq.ProducerDeliveryTimeout(2 * time.Second))
		if err != nil {
			return
		}
		defer p.Close(ctx)
		value := fmt.Sprintf("turn %d", c.turn)
		r, err := p.Send(ctx, &pulsemq.Message{Topic: churnName(i), Partition: pulsemq.PartitionNumber(1), Value: []byte(value)})
		if err == nil {
			t.offset, t.value = r.Offset, value
		}
		return
	}
	_, err := c.client.Admin().DeleteTopic(ctx, churnName(i))
	switch {
	case err == nil, errors.Is(err, pulsemq.ErrUnknownTopic):
		*t = churned{}
	default:
		t.state, t.doubt = churnDoubt, c.crashes.Load()
	}
}

// audit looks whether what was created is there with its message and what was deleted is not.
func (c *churn) audit(ctx context.Context) (faults []string, err error) {
	topics, err := c.client.Admin().ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	there := map[string]pulsemq.TopicID{}
	for _, t := range topics {
		there[t.Name] = t.ID
	}
	for i := range c.topics {
		t, name := &c.topics[i], churnName(i)
		id, found := there[name]
		switch {
		case t.state == churnAbsent && found:
			faults = append(faults, name+" was deleted and is there")
		case t.state == churnPresent && (!found || id != t.id):
			faults = append(faults, fmt.Sprintf("%s was created as %v and is not there (%v)", name, t.id, id))
		case t.state == churnPresent && t.offset >= 0:
			if err := c.reread(ctx, name, t); err != nil {
				faults = append(faults, fmt.Sprintf("%s: %v", name, err))
			}
		}
	}
	return faults, nil
}

func (c *churn) reread(ctx context.Context, name string, t *churned) error {
	k, err := c.client.NewConsumer(pulsemq.ConsumerStopAtEnd())
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.AssignPartition(ctx, name, 1, pulsemq.StartOffset(t.offset)); err != nil {
		return err
	}
	for r, err := range k.Records(ctx) {
		if err != nil {
			return err
		}
		if string(r.Value) != t.value {
			return fmt.Errorf("offset %d holds %q, want %q", r.Offset, r.Value, t.value)
		}
		return nil
	}
	return fmt.Errorf("the message at offset %d is gone", t.offset)
}
