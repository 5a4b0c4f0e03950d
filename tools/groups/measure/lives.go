package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// Lives has many groups join, read, commit and leave, and then be forgotten: because they are deleted, or because their
// time is over.
type Lives struct {
	Groups int
	Warm   int           // that do so before the first look, so that what the broker keeps once is there
	Side   int           // that live side by side
	Expire time.Duration // how long the broker keeps offsets, at least 1s; 0: groups are deleted instead
}

// Settings are those that the broker has to have, as key=value.
func (l *Lives) Settings() []string {
	if l.Expire == 0 {
		return nil
	}
	return []string{"offsets.retention=" + l.Expire.String()}
}

// Memories is what the broker held before, while and after groups lived.
type Memories struct{ Base, Living, After Memory }

const livesTopic = "t"

// Run measures on a broker that has no topic yet and shows profiles, and says how far it is.
func (l *Lives) Run(ctx context.Context, b *Broker, say Say) (*Memories, error) {
	client, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := l.prepare(ctx, client); err != nil {
		return nil, err
	}
	var m Memories
	if err := l.many(ctx, client, "warm", l.Warm); err != nil {
		return nil, err
	}
	if err := l.end(ctx, b, client, "warm", l.Warm); err != nil {
		return nil, err
	}
	if m.Base, err = b.memory(ctx, 0); err != nil {
		return nil, err
	}
	say("before: %v", m.Base)
	began := time.Now()
	if err := l.many(ctx, client, "group", l.Groups); err != nil {
		return nil, err
	}
	took := time.Since(began)
	alive := l.Groups
	if l.Expire != 0 {
		alive = -1 // some are gone already
	}
	if m.Living, err = b.memory(ctx, alive); err != nil {
		return nil, err
	}
	say("%d groups have lived (%v): %v", l.Groups, took.Round(time.Millisecond), m.Living)
	began = time.Now()
	if err := l.end(ctx, b, client, "group", l.Groups); err != nil {
		return nil, err
	}
	took = time.Since(began)
	if m.After, err = b.memory(ctx, 0); err != nil {
		return nil, err
	}
	say("all are gone (%v): %v", took.Round(time.Millisecond), m.After)
	return &m, nil
}

// prepare makes the topic that groups read, with the record that each of them gets.
func (l *Lives) prepare(ctx context.Context, client *pulsemq.Client) error {
	if _, err := client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: livesTopic, Partitions: 1}); err != nil {
		return err
	}
	producer, err := client.NewProducer()
	if err != nil {
		return err
	}
	_, err = producer.Send(ctx, &pulsemq.Message{Topic: livesTopic, Value: []byte("x")})
	return errors.Join(err, producer.Close(ctx))
}

// many lets groups live, some side by side.
func (l *Lives) many(ctx context.Context, client *pulsemq.Client, name string, groups int) error {
	return each(ctx, l.Side, groups, func(i int) error {
		g, err := client.NewGroupConsumer(fmt.Sprintf("%s-%06d", name, i), pulsemq.GroupTopics(livesTopic), pulsemq.GroupAutoCommit(0))
		if err != nil {
			return err
		}
		if _, err := g.Poll(ctx); err != nil {
			return errors.Join(err, g.Close(ctx))
		}
		return errors.Join(g.Commit(ctx), g.Close(ctx))
	})
}

// end deletes the groups, or waits until their time is over.
func (l *Lives) end(ctx context.Context, b *Broker, client *pulsemq.Client, name string, groups int) error {
	if l.Expire == 0 {
		admin := client.Admin()
		return each(ctx, l.Side, groups, func(i int) error {
			for {
				err := admin.DeleteGroup(ctx, fmt.Sprintf("%s-%06d", name, i))
				if !pulsemq.Retriable(err) { // OVERLOADED says to come back
					return err
				}
			}
		})
	}
	for {
		page, err := b.Page(ctx, "/metrics")
		if err != nil {
			return err
		}
		left := page.sum("pulsemq_groups")
		if left == 0 {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%v groups are left: %w", left, ctx.Err())
		}
	}
}
