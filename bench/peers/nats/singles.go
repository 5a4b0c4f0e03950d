package nats

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Load is what is published.
type Load struct {
	RecordBytes int
	Connections int
	InFlight    int
	Duration    time.Duration
}

// Published is what was acknowledged.
type Published struct {
	Acked     int64
	ByCounter []uint64 // of each producer: how many it has sent, all of them acknowledged
	Took      time.Duration
	P50, P99  time.Duration
}

// Singles publishes messages one by one on as many connections, each of which keeps as many unacknowledged. Connections
// are spread over the streams.
func (s *Streams) Singles(ctx context.Context, load Load) (Published, error) {
	var publishers []*publisher
	defer func() {
		for _, p := range publishers {
			p.wire.conn.Close()
		}
	}()
	for i := range load.Connections {
		w, err := dial(ctx, s.address, s.conn.NewInbox())
		if err != nil {
			return Published{}, err
		}
		publishers = append(publishers, &publisher{wire: w, number: uint32(i), subject: []byte(s.names[i%len(s.names)]), payload: newPayload(load.RecordBytes), due: make([]time.Time, load.InFlight)})
	}
	start := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, p := range publishers {
		running.Go(func() {
			if err := p.run(ctx, start.Add(load.Duration)); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return Published{}, err
	}
	sum := Published{Took: time.Since(start)}
	var waits []time.Duration
	for _, p := range publishers {
		sum.Acked += int64(p.sent)
		sum.ByCounter = append(sum.ByCounter, p.sent)
		waits = append(waits, p.waits...)
	}
	if slices.Sort(waits); len(waits) > 0 {
		sum.P50, sum.P99 = waits[len(waits)/2], waits[len(waits)*99/100]
	}
	return sum, nil
}

// waitEvery is which of the waits are kept: one in so many is enough for percentiles, and keeps memory small.
const waitEvery = 16

// publisher is one connection. It sends what an acknowledgement makes room for, as PulseMQ's load does.
type publisher struct {
	wire    *wire
	number  uint32
	subject []byte
	payload []byte
	due     []time.Time // by slot
	sent    uint64
	acked   uint64
	waits   []time.Duration
}

func (p *publisher) run(ctx context.Context, end time.Time) error {
	defer context.AfterFunc(ctx, func() { _ = p.wire.conn.SetDeadline(time.Unix(1, 0)) })()
	now := time.Now()
	for slot := range p.due {
		p.send(slot, now)
	}
	waiting := len(p.due)
	checked := now
	for waiting > 0 {
		if err := p.wire.flush(); err != nil {
			return err
		}
		if now.Sub(checked) > time.Second || checked == now {
			checked = now
			if err := p.wire.conn.SetReadDeadline(now.Add(silenceMax)); err != nil {
				return err
			}
		}
		for first := true; first || p.wire.buffered(); first = false {
			slot, err := p.wire.ack()
			if err != nil {
				return errors.Join(context.Cause(ctx), err)
			}
			if slot >= len(p.due) {
				return errors.New("an acknowledgement of a message that was not sent")
			}
			now = time.Now()
			if p.acked++; p.acked%waitEvery == 1 { // the first one too, of a run that has few
				p.waits = append(p.waits, now.Sub(p.due[slot]))
			}
			if now.Before(end) {
				p.send(slot, now)
			} else if waiting--; waiting == 0 {
				return nil
			}
		}
	}
	return nil
}

func (p *publisher) send(slot int, now time.Time) {
	putMark(p.payload, p.number, p.sent)
	p.wire.publish(p.subject, slot, p.payload)
	p.due[slot] = now
	p.sent++
}
