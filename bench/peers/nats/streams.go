package nats

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Streams are the streams of one run, each with one subject of its name.
type Streams struct {
	address string
	conn    *nats.Conn
	js      jetstream.JetStream
	names   []string
}

// Create makes as many streams as there are, on files.
func Create(ctx context.Context, address, prefix string, count int, fast bool) (*Streams, error) {
	conn, err := nats.Connect("nats://" + address)
	if err != nil {
		return nil, err
	}
	s := &Streams{address: address, conn: conn}
	if s.js, err = jetstream.New(conn); err != nil {
		conn.Close()
		return nil, err
	}
	for i := range count {
		name := fmt.Sprintf("%s-%d", prefix, i)
		config := jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage, AllowBatchPublish: fast}
		if _, err := s.js.CreateStream(ctx, config); err != nil {
			conn.Close()
			return nil, fmt.Errorf("create stream %s: %w", name, err)
		}
		s.names = append(s.names, name)
	}
	return s, nil
}

// Remove deletes the streams and closes the connection.
func (s *Streams) Remove(ctx context.Context) error {
	defer s.conn.Close()
	for _, name := range s.names {
		if err := s.js.DeleteStream(ctx, name); err != nil {
			return fmt.Errorf("delete stream %s: %w", name, err)
		}
	}
	return nil
}
