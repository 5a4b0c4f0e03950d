package pulsemq_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// Handle runs a function for each message. Its error says what becomes of the message: here one fails once, and another
// can never be processed.
func ExampleQueueConsumer_Handle() {
	ctx := begin("mails", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "mails", "anna", "nobody", "bert")

	queue, err := client.NewQueueConsumer("senders", pulsemq.QueueTopics("mails"))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	err = queue.Handle(ctx, func(ctx context.Context, m *pulsemq.QueueMessage) error {
		switch {
		case string(m.Value) == "nobody":
			return pulsemq.Rejected(errors.New("no such user")) // to the dead-letter topic
		case string(m.Value) == "anna" && m.Attempt == 1:
			fmt.Println("the mail to anna is tried again")
			return errors.New("the server is busy") // again, after the topic's back-off
		}
		fmt.Printf("sent to %s\n", m.Value)
		if string(m.Value) == "bert" { // a program that runs on does not end here
			stop()
		}
		return nil // acknowledged: it does not come again
	})
	if !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	if err := queue.Close(context.WithoutCancel(ctx)); err != nil { // what was not begun goes to others at once
		log.Fatal(err)
	}
	// Output:
	// the mail to anna is tried again
	// sent to anna
	// sent to bert
}

// Messages is a loop. What is not settled in it is acknowledged when it asks for the next message.
func ExampleQueueConsumer_Messages() {
	ctx := begin("thumbnails", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "thumbnails", "cat.png", "dog.png")

	queue, err := client.NewQueueConsumer("scalers", pulsemq.QueueTopics("thumbnails"))
	if err != nil {
		log.Fatal(err)
	}
	for m, err := range queue.Messages(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("scaling %s\n", m.Value)
		if m.Offset == 1 {
			if err := m.Ack().Wait(ctx); err != nil { // when it has to be known that it is on disk
				log.Fatal(err)
			}
			break
		}
	}
	if err := queue.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// scaling cat.png
	// scaling dog.png
}
