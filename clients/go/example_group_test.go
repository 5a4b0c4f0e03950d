package pulsemq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// The loop over Records commits in the background what was processed: a record counts as processed when the loop asks for
// the next one, or ends. A program that dies processes again what was not committed yet, a second's worth at most.
func ExampleGroupConsumer_Records() {
	ctx := begin("invoices", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "invoices", "one", "two", "three")

	group, err := client.NewGroupConsumer("billing", pulsemq.GroupTopics("invoices"))
	if err != nil {
		log.Fatal(err)
	}
	for record, err := range group.Records(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", record.Value)
		if record.Offset == 2 { // a program that runs on does not end here
			break
		}
	}
	if err := group.Close(ctx); err != nil { // commits, and leaves: others go on at once
		log.Fatal(err)
	}

	offsets, err := client.Admin().GroupOffsets(ctx, "billing")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the group goes on at offset", offsets[0].Committed)
	// Output:
	// one
	// two
	// three
	// the group goes on at offset 3
}

// At least once: process, then commit. When the program dies in between, or the commit fails, the records are processed
// again, by this member or another.
func ExampleGroupConsumer_Commit_atLeastOnce() {
	ctx := begin("shipments", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "shipments", "chair", "table")

	group, err := client.NewGroupConsumer("warehouse",
		pulsemq.GroupTopics("shipments"),
		pulsemq.GroupAutoCommit(0), // Commit says when
	)
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close(ctx)
	for n := 0; n < 2; {
		records, err := group.Poll(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, record := range records {
			fmt.Printf("packing %s\n", record.Value) // it may come twice: make it harmless
			n++
		}
		if err := group.Commit(ctx); err != nil {
			log.Print("these records may be processed again: ", err)
		}
	}
	// Output:
	// packing chair
	// packing table
}

// At most once: commit, then process, and only what was committed. When the program dies in between, the records are left
// out.
func ExampleGroupConsumer_Commit_atMostOnce() {
	ctx := begin("alarms", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "alarms", "fire", "water")

	group, err := client.NewGroupConsumer("siren", pulsemq.GroupTopics("alarms"), pulsemq.GroupAutoCommit(0))
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close(ctx)
	for n := 0; n < 2; {
		records, err := group.Poll(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := group.Commit(ctx); err != nil {
			log.Print("left out, for nobody knows whether it is committed: ", err)
			continue
		}
		for _, record := range records {
			fmt.Printf("sounding for %s\n", record.Value) // it never comes twice
			n++
		}
	}
	// Output:
	// sounding for fire
	// sounding for water
}

// Callbacks keep something for each partition while the member has it, here a sum, and store it with what it belongs to
// when the partition goes. They are called in the background, while records of other partitions are processed.
func ExampleGroupOnRevoked() {
	ctx := begin("meters", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "meters", "1", "22", "333")

	var mu sync.Mutex
	bytes := map[uint32]int{}
	group, err := client.NewGroupConsumer("sums", pulsemq.GroupTopics("meters"),
		pulsemq.GroupOnAssigned(func(partitions []pulsemq.GroupPartition) { // before their first record
			mu.Lock()
			defer mu.Unlock()
			for _, p := range partitions {
				fmt.Println("partition", p.Partition, "from offset", p.Offset)
				bytes[p.Partition] = 0
			}
		}),
		pulsemq.GroupOnRevoked(func(partitions []pulsemq.GroupPartition) { // after their last record
			mu.Lock()
			defer mu.Unlock()
			for _, p := range partitions {
				fmt.Println("partition", p.Partition, "up to offset", p.Offset, "has", bytes[p.Partition], "bytes")
				delete(bytes, p.Partition)
			}
		}),
		pulsemq.GroupOnLost(func(partitions []pulsemq.GroupPartition) { // others may have them: nothing may be stored
			mu.Lock()
			defer mu.Unlock()
			for _, p := range partitions {
				delete(bytes, p.Partition)
			}
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	for record, err := range group.Records(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		mu.Lock()
		if _, mine := bytes[record.Partition]; mine {
			bytes[record.Partition] += len(record.Value)
		}
		mu.Unlock()
		if record.Offset == 2 {
			break
		}
	}
	if err := group.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// partition 0 from offset 0
	// partition 0 up to offset 3 has 6 bytes
}

// A group that has never committed begins nowhere with GroupStartNone: the program decides, and is told that it has to.
func ExampleGroupStartNone() {
	ctx := begin("journal", 1)
	client, err := pulsemq.Connect(ctx, brokers)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fill(ctx, client, "journal", "old", "new")

	group, err := client.NewGroupConsumer("audit", pulsemq.GroupTopics("journal"), pulsemq.GroupStartNone())
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close(ctx)
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		records, err := group.Poll(within)
		var about *pulsemq.PartitionError
		if errors.As(err, &about) && errors.Is(err, pulsemq.ErrNoOffset) {
			fmt.Println("the group has never read partition", about.Partition)
			if err := group.Seek(within, about.Topic, about.Partition, pulsemq.StartOffset(1)); err != nil {
				log.Fatal(err)
			}
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", records[0].Value)
		return
	}
	// Output:
	// the group has never read partition 0
	// new
}
