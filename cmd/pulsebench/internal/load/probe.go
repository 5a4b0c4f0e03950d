package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/link"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/payload"
	"github.com/pulsemq/pulsemq/proto"
)

// probeWait is the pause before a broker is asked again that was not ready.
const probeWait = 5 * time.Millisecond

// Probe returns once every partition of a topic has stored a record and shown it to a reader.
func Probe(ctx context.Context, brokers, version, name string) error {
	topic, err := probeTopic(ctx, brokers, version, name)
	if err != nil {
		return err
	}
	template, err := payload.NewTemplate(payload.Spec{Records: 1, RecordBytes: payload.MarkBytes})
	if err != nil {
		return err
	}
	batch := append(template.AppendHead(nil, payload.Mark{}, time.Now().UnixMilli()), template.Tail()...)
	for _, leader := range topic.Leaders() {
		if err := probeLeader(ctx, topic, leader, version, batch); err != nil {
			return fmt.Errorf("%s: %w", leader, err)
		}
	}
	return nil
}

// probeTopic waits for the topic's partitions to have leaders.
func probeTopic(ctx context.Context, brokers, version, name string) (*Topic, error) {
	for {
		l, err := dialAny(ctx, brokers, version)
		if err == nil {
			t := &Topic{Name: name, Hello: *l.Hello()}
			err = t.load(ctx, l)
			l.Close()
			if err == nil {
				return t, nil
			}
		}
		if err := pause(ctx, err); err != nil {
			return nil, err
		}
	}
}

// pause waits a little after a refusal that may go away. Any other error ends the probe.
func pause(ctx context.Context, err error) error {
	if code, known := proto.CodeOf(err); known && !code.Retriable() {
		return err
	}
	select {
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), err)
	case <-time.After(probeWait):
		return nil
	}
}

// probeLeader asks one broker for all of its partitions.
func probeLeader(ctx context.Context, topic *Topic, leader, version string, batch []byte) error {
	l, err := dial(ctx, leader, version)
	if err != nil {
		return err
	}
	defer l.Close()
	var asking []*probed
	for _, p := range topic.Partitions {
		if p.Leader == leader {
			asking = append(asking, &probed{Partition: p})
		}
	}
	for len(asking) > 0 {
		var left []*probed
		// As many as the window takes are asked at once: one after the other would measure round trips.
		for len(asking) > 0 {
			n, err := probeSome(ctx, l, topic, asking, batch)
			if err != nil {
				return err
			}
			for _, p := range asking[:n] {
				if !p.fetched {
					left = append(left, p)
				}
			}
			asking = asking[n:]
		}
		asking = left
	}
	return nil
}

// probed is how far a partition has come.
type probed struct {
	Partition
	stored, fetched bool
	offset          int64
	bytes           int // of the request that is unanswered
}

// probeSome takes the first of the partitions one step further, as many as there is room for, and returns how many.
func probeSome(ctx context.Context, l *link.Link, topic *Topic, asking []*probed, batch []byte) (int, error) {
	waiting := make(map[uint64]*probed)
	count := 0
	for _, p := range asking {
		var request proto.Message = &proto.ProduceRequest{TopicID: topic.ID, Partition: p.Number, LeaderEpoch: -1, Acks: proto.AcksDurable, Batch: batch}
		if p.stored {
			request = &proto.FetchRequest{TopicID: topic.ID, Partition: p.Number, LeaderEpoch: -1, Offset: p.offset, LastEpoch: -1, MinBytes: 1, MaxBytes: 1, MaxWaitMs: fetchWaitMs}
		}
		p.bytes = request.Size()
		if !l.Admits(p.bytes) {
			break
		}
		l.Take(p.bytes)
		id := l.NextID()
		l.Append(id, request)
		waiting[id] = p
		count++
	}
	stop := context.AfterFunc(ctx, func() { _ = l.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := l.Flush(); err != nil {
		return 0, err
	}
	refused := error(nil)
	for len(waiting) > 0 {
		f, ok, err := l.Next()
		if err == nil && !ok {
			err = errors.Join(l.Flush(), l.Fill())
			if err == nil {
				continue
			}
		}
		if err != nil {
			return 0, errors.Join(context.Cause(ctx), err)
		}
		p := waiting[f.RequestID]
		if p == nil {
			return 0, fmt.Errorf("an answer to request %d, which is not waiting for one", f.RequestID)
		}
		last, err := p.answered(&f)
		if last {
			delete(waiting, f.RequestID)
			l.GiveBack(p.bytes)
		}
		if err != nil {
			refused = err
		}
	}
	if refused != nil {
		return count, pause(ctx, refused)
	}
	return count, nil
}

// answered takes an answer; last is false when more frames of it follow.
func (p *probed) answered(f *link.Frame) (last bool, err error) {
	switch {
	case f.Command == proto.CommandError:
		return true, link.DecodeError(f.Payload)
	case f.Command == proto.CommandProduce && f.Answer:
		var answer proto.ProduceResponse
		if err := answer.Decode(f.Payload); err != nil {
			return true, err
		}
		p.stored, p.offset = true, answer.BaseOffset
	case f.Command == proto.CommandFetch && f.Answer:
		var answer proto.FetchResponse
		if err := answer.Decode(f.Payload); err != nil {
			return true, err
		}
		p.fetched = p.fetched || len(answer.Batches) > 0
		return !answer.More, nil
	}
	return true, nil
}
