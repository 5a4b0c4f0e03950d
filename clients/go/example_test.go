package pulsemq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// begin gives an example its broker and a topic of its own.
func begin(topic string, partitions uint32) context.Context {
	exampleStart()
	ctx := context.Background()
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if topic != "" {
		if _, err := client.Admin().CreateTopic(ctx, pulsemq.TopicSpec{Name: topic, Partitions: partitions}); err != nil {
			log.Fatal(err)
		}
	}
	return ctx
}

func ExampleConnect() {
	ctx := begin("", 0)

	client, err := pulsemq.Connect(ctx, brokers, pulsemq.ClientName("billing"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	list, err := client.Admin().Brokers(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("brokers:", len(list))
	// Output: brokers: 1
}

func ExampleProducer_Send() {
	ctx := begin("payments", 4)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	producer, err := client.NewProducer()
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close(ctx)

	result, err := producer.Send(ctx, &pulsemq.Message{
		Topic:   "payments",
		Key:     []byte("customer-7"),
		Value:   []byte(`{"amount": 1250}`),
		Headers: []pulsemq.Header{{Key: "currency", Value: []byte("EUR")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stored at offset", result.Offset, "with durability", result.Durability)
	// Output: stored at offset 0 with durability sync
}

func ExampleProducer_SendAsync() {
	ctx := begin("clicks", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	producer, err := client.NewProducer(
		pulsemq.ProducerCompression(pulsemq.CompressionZstd),
		pulsemq.ProducerDeliveryTimeout(10*time.Second),
	)
	if err != nil {
		log.Fatal(err)
	}

	stored := 0
	for i := range 1000 {
		message := &pulsemq.Message{Topic: "clicks", Value: fmt.Appendf(nil, "click %d", i)}
		err := producer.SendAsync(ctx, message, func(result pulsemq.Result, err error) {
			if err != nil {
				log.Print("not stored: ", err)
				return
			}
			stored++ // callbacks run one after the other
		})
		if err != nil {
			log.Fatal("not taken: ", err)
		}
	}
	if err := producer.Close(ctx); err != nil { // waits for every result
		log.Fatal(err)
	}
	fmt.Println(stored, "stored")
	// Output: 1000 stored
}

func ExampleConsumer_Records() {
	ctx := begin("orders", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "orders", "apples", "pears", "plums")

	consumer, err := client.NewConsumer(pulsemq.ConsumerStopAtEnd())
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	if err := consumer.AssignTopic(ctx, "orders", pulsemq.StartEarliest()); err != nil {
		log.Fatal(err)
	}
	for record, err := range consumer.Records(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: %s\n", record.Offset, record.Value)
	}
	// Output:
	// 0: apples
	// 1: pears
	// 2: plums
}

func ExampleConsumer_Poll() {
	ctx := begin("readings", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "readings", "20.5", "20.7", "20.6")

	consumer, err := client.NewConsumer(
		pulsemq.ConsumerMode(pulsemq.ConsumerPush), // the broker sends as it comes
		pulsemq.ConsumerReset(pulsemq.ConsumerResetEarliest),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	if err := consumer.AssignPartition(ctx, "readings", 0, pulsemq.StartOffset(1)); err != nil {
		log.Fatal(err)
	}
	for n := 0; n < 2; {
		records, err := consumer.Poll(ctx)
		var about *pulsemq.PartitionError
		if errors.As(err, &about) && !about.Stopped {
			log.Print("went on at ", about.Next, ": ", err)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, record := range records {
			fmt.Printf("%s\n", record.Value)
			n++
		}
	}
	// Output:
	// 20.7
	// 20.6
}

func ExampleConsumer_Seek() {
	ctx := begin("events", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	noon := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	producer, err := client.NewProducer()
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		at := noon.Add(time.Duration(i) * time.Minute)
		if _, err := producer.Send(ctx, &pulsemq.Message{Topic: "events", Value: []byte(at.Format("15:04")), Timestamp: at}); err != nil {
			log.Fatal(err)
		}
	}

	consumer, err := client.NewConsumer()
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	if err := consumer.AssignTopic(ctx, "events", pulsemq.StartLatest()); err != nil {
		log.Fatal(err)
	}
	if err := consumer.Seek(ctx, "events", 0, pulsemq.StartTime(noon.Add(30*time.Second))); err != nil {
		log.Fatal(err)
	}
	records, err := consumer.Poll(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s at offset %d\n", records[0].Value, records[0].Offset)
	// Output: 12:01 at offset 1
}

func ExampleAdmin() {
	ctx := begin("", 0)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	admin := client.Admin()
	created, err := admin.CreateTopic(ctx, pulsemq.TopicSpec{
		Name:       "audit",
		Partitions: 2,
		Config:     map[string]string{"retention.ms": "7d"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(created.Name, "has", created.Partitions, "partitions")

	_, err = admin.CreateTopic(ctx, pulsemq.TopicSpec{Name: "audit"})
	fmt.Println("again:", errors.Is(err, pulsemq.ErrTopicExists), "retriable:", pulsemq.Retriable(err))

	offsets, err := admin.ListOffsets(ctx, "audit", pulsemq.OffsetLatest())
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range offsets {
		fmt.Println("partition", o.Partition, "ends at", o.Offset)
	}
	// Output:
	// audit has 2 partitions
	// again: true retriable: false
	// partition 0 ends at 0
	// partition 1 ends at 0
}

// fill sends values one after the other.
func fill(ctx context.Context, client *pulsemq.Client, topic string, values ...string) {
	producer, err := client.NewProducer()
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close(ctx)
	for _, value := range values {
		if _, err := producer.Send(ctx, &pulsemq.Message{Topic: topic, Value: []byte(value)}); err != nil {
			log.Fatal(err)
		}
	}
}
