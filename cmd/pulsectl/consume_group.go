package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// consumeGroup prints messages as a member of a group. Each is committed once it is printed,
// unless --ack none says that nothing is.
func (s *session) consumeGroup(ctx context.Context, f *consumeFlags, from pulsemq.Start, printer recordPrinter) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	name, _ := os.Hostname() // it is for people alone
	every := time.Second
	if f.ack == "none" {
		every = 0
	}
	s.sayAbsent(ctx, client, f.topic)
	consumer, err := client.NewGroupConsumer(f.group, pulsemq.GroupTopics(f.topic), pulsemq.GroupStart(from), pulsemq.GroupAutoCommit(every),
		pulsemq.GroupClientName("pulsectl "+name), pulsemq.GroupReads(pulsemq.ConsumerSkipCorrupt(f.skip), pulsemq.ConsumerReset(pulsemq.ConsumerResetEarliest)))
	if err != nil {
		return err
	}
	err = s.printGroup(ctx, consumer, printer, f)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // an interrupt is how it ends
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	if f.ack != "none" && err == nil {
		err = printer.flush() // before it is committed
	}
	return errors.Join(err, consumer.Close(bound))
}

func (s *session) printGroup(ctx context.Context, consumer *pulsemq.GroupConsumer, printer recordPrinter, f *consumeFlags) error {
	left := f.count
	for record, err := range consumer.Records(ctx) {
		if lost := (*pulsemq.PartitionError)(nil); errors.As(err, &lost) && !lost.Stopped {
			fmt.Fprintf(s.err, "pulsectl: %s; reading goes on at offset %d\n", s.tell(err), lost.Next)
			continue
		}
		if err != nil {
			return err
		}
		if err := printer.print(record); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := printer.flush(); err != nil { // what counts as processed has been shown
			return fmt.Errorf("write: %w", err)
		}
		if left--; f.countGiven && left == 0 {
			return nil
		}
	}
	return ctx.Err()
}

// sayAbsent tells whom a member waits for when its topic does not exist, which may be a mistyped name. Whatever else keeps
// it from reading is told by the reading.
func (s *session) sayAbsent(ctx context.Context, client *pulsemq.Client, topic string) {
	if _, err := client.Admin().DescribeTopic(ctx, topic); errors.Is(err, pulsemq.ErrUnknownTopic) {
		fmt.Fprintf(s.err, "pulsectl: topic %q does not exist; waiting for it\n", topic)
	}
}
