package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/proto"
)

// lineWait bounds every read and write of a line.
const lineWait = time.Minute

// line is a bare connection to the broker: it repeats nothing and hides nothing, so that each answer can be judged.
type line struct {
	conn net.Conn
}

func dialLine(address string) (*line, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &line{conn: conn}
	if err := l.send(1, &proto.HelloRequest{Magic: proto.Magic, ClientName: "chaos"}); err != nil {
		return nil, errors.Join(err, l.close())
	}
	h, payload, err := l.next()
	if err == nil && h.Command != proto.CommandHello {
		err = refusalOf(h, payload)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *line) close() error { return l.conn.Close() }

func (l *line) send(id uint64, m proto.Message) error {
	l.conn.SetWriteDeadline(time.Now().Add(lineWait))
	_, err := l.conn.Write(proto.AppendFrame(nil, id, m))
	return err
}

// next is the next frame; what the broker asks of its own accord is left out.
func (l *line) next() (proto.FrameHeader, []byte, error) {
	for {
		l.conn.SetReadDeadline(time.Now().Add(lineWait))
		head := make([]byte, proto.FrameHeaderBytes)
		if _, err := io.ReadFull(l.conn, head); err != nil {
			return proto.FrameHeader{}, nil, err
		}
		h, _, err := proto.DecodeFrameHeader(head, 1<<30)
		if err != nil {
			return h, nil, err
		}
		payload := make([]byte, h.PayloadBytes())
		if _, err := io.ReadFull(l.conn, payload); err != nil {
			return h, nil, err
		}
		if h.Answer || h.RequestID&proto.ServerIDBit == 0 {
			return h, payload, nil
		}
	}
}

// refusalOf is the error that a frame carries.
func refusalOf(h proto.FrameHeader, payload []byte) error {
	if h.Command != proto.CommandError {
		return fmt.Errorf("answered with %v", h.Command)
	}
	refusal := &proto.Error{}
	if err := refusal.Decode(payload); err != nil {
		return err
	}
	return refusal
}

// produceRequest is one message as a batch of its own, without a producer id.
func produceRequest(topic pulsemq.TopicID, partition uint32, value []byte) (*proto.ProduceRequest, error) {
	var builder proto.BatchBuilder
	builder.Reset(proto.CodecNone)
	if err := builder.Append(&proto.Record{Timestamp: time.Now().UnixMilli(), Value: value}); err != nil {
		return nil, err
	}
	batch, err := builder.Build()
	if err != nil {
		return nil, err
	}
	return &proto.ProduceRequest{TopicID: topic, Partition: partition, LeaderEpoch: -1, Acks: proto.AcksDurable, Batch: batch}, nil
}

// pipeline keeps messages under way on a line and notes what becomes of each.
type pipeline struct {
	*line
	topic  pulsemq.TopicID
	ledger *ledger
	size   int // of a value

	window chan struct{}
	ended  chan struct{} // closed when the broker has ended the connection

	mu       sync.Mutex
	writer   uint64
	under    map[uint64]stamp // by request id
	acked    int
	refused  map[proto.Code]int
	faults   []string
	farewell error // what the broker said about the connection, if it did
}

// newPipeline begins to listen for answers.
func newPipeline(address string, topic pulsemq.TopicID, l *ledger, writer uint64, window, size int) (*pipeline, error) {
	dialled, err := dialLine(address)
	if err != nil {
		return nil, err
	}
	p := &pipeline{line: dialled, topic: topic, ledger: l, size: size, writer: writer, window: make(chan struct{}, window),
		ended: make(chan struct{}), under: map[uint64]stamp{}, refused: map[proto.Code]int{}}
	go p.listen()
	return p, nil
}

// pump sends until stop is closed or the connection ends.
func (p *pipeline) pump(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case <-p.ended:
			return nil
		case p.window <- struct{}{}:
		}
		s := p.ledger.next(p.writer)
		m, err := produceRequest(p.topic, p.ledger.partition, s.value(p.size))
		if err != nil {
			return err
		}
		id := s.number + 100
		p.mu.Lock()
		p.under[id] = s
		p.mu.Unlock()
		if p.send(id, m) != nil {
			return nil // the listener says why
		}
	}
}

func (p *pipeline) listen() {
	defer close(p.ended)
	for {
		h, payload, err := p.next()
		if err != nil {
			return
		}
		p.mu.Lock()
		s, asked := p.under[h.RequestID]
		switch {
		case h.RequestID == 0:
			p.farewell = refusalOf(h, payload)
		case !asked:
			p.faults = append(p.faults, fmt.Sprintf("an answer to request %d, which was never sent or is answered", h.RequestID))
		case h.Command == proto.CommandProduce:
			var r proto.ProduceResponse
			if err := r.Decode(payload); err != nil {
				p.faults = append(p.faults, err.Error())
				break
			}
			p.acked++
			p.ledger.ack(s, r.BaseOffset, "")
		default:
			code, ok := proto.CodeOf(refusalOf(h, payload))
			if !ok || !code.Retriable() {
				p.faults = append(p.faults, fmt.Sprintf("%v was refused for good: %v", s, refusalOf(h, payload)))
			}
			p.refused[code]++
		}
		if asked {
			delete(p.under, h.RequestID)
			<-p.window
		}
		p.mu.Unlock()
	}
}

// outcome is what has become of what was sent on a pipeline.
type outcome struct {
	acked      int
	refused    map[proto.Code]int
	unanswered int
	farewell   error    // what the broker said about the connection
	faults     []string // what should not have been
}

func (p *pipeline) outcome() outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	return outcome{p.acked, p.refused, len(p.under), p.farewell, p.faults}
}
