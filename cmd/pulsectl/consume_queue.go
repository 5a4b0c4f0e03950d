package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// consumeQueue prints messages as a member of a queue group. Each is acknowledged once it is
// printed, or with --ack none before.
func (s *session) consumeQueue(ctx context.Context, f *consumeFlags, from pulsemq.Start, printer recordPrinter) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	name, _ := os.Hostname() // it is for people alone
	options := []pulsemq.QueueOption{pulsemq.QueueTopics(f.topic), pulsemq.QueueStart(from), pulsemq.QueueClientName("pulsectl " + name)}
	if f.ack == "none" {
		options = append(options, pulsemq.QueueAtMostOnce())
	}
	s.sayAbsent(ctx, client, f.topic)
	consumer, err := client.NewQueueConsumer(f.group, options...)
	if err != nil {
		return err
	}
	err = s.printQueue(ctx, consumer, printer, f)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // an interrupt is how it ends
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	return errors.Join(err, consumer.Close(bound))
}

func (s *session) printQueue(ctx context.Context, consumer *pulsemq.QueueConsumer, printer recordPrinter, f *consumeFlags) error {
	for left := f.count; ; {
		m, err := consumer.Poll(ctx)
		if err != nil {
			return err
		}
		err = printer.print(&m.Record)
		if err == nil {
			err = printer.flush() // what is acknowledged has been shown
		}
		if err != nil {
			m.Release()
			return fmt.Errorf("write: %w", err)
		}
		m.Ack()
		if left--; f.countGiven && left == 0 {
			return nil
		}
	}
}
