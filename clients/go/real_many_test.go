package pulsemq_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

const (
	manyTopics     = 5_000
	manyPartitions = 10_000 // of one topic: the most there may be

	// manyMemory is memory.limit, and manyMemoryOver what the process may take beside it: stacks, rings, the program.
	manyMemory     = 256 << 20
	manyMemoryOver = 128 << 20
	// manyClientMemory bounds what the client's heap grows by for all of this.
	manyClientMemory = 64 << 20
	// manyDescriptors is what idle partitions may add to the broker's open files: none, but for a few in use.
	manyDescriptors = 64
	// manyScrape is how long a page of metrics may take then.
	manyScrape = time.Second
)

// TestRealBrokerMany has a broker of little memory hold five thousand topics and a topic of ten thousand partitions, and
// create and delete topics again and again: neither it nor the client grows, nothing stays open, and its metrics come in
// time.
func TestRealBrokerMany(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes fifteen thousand partitions")
	}
	b := realBroker(t, "--set", "memory.limit="+strconv.Itoa(manyMemory), "--set", "storage.min-free=1MiB")
	client := connect(t, b)
	a := client.Admin()
	if _, err := a.CreateTopic(within(t), pulsemq.TopicSpec{Name: "first"}); err != nil {
		t.Fatal(err)
	}
	heap, files := heapBytes(), b.descriptors(t)
	var makers sync.WaitGroup
	names := make(chan string)
	for range 64 {
		makers.Go(func() {
			for name := range names {
				if _, err := a.CreateTopic(within(t), pulsemq.TopicSpec{Name: name}); err != nil {
					t.Errorf("create %s: %v", name, err)
				}
			}
		})
	}
	for n := range manyTopics - 1 {
		names <- fmt.Sprintf("many-%04d", n)
	}
	close(names)
	makers.Wait()
	if _, err := a.CreateTopic(within(t), pulsemq.TopicSpec{Name: "wide", Partitions: manyPartitions}); err != nil {
		t.Fatal(err)
	}
	last, count := "", 0
	for topic, err := range a.Topics(within(t)) {
		if err != nil || topic.Name <= last {
			t.Fatalf("%s behind %s: %v", topic.Name, last, err)
		}
		last = topic.Name
		count++
	}
	if count != manyTopics+1 {
		t.Errorf("%d topics are listed, there are %d", count, manyTopics+1)
	}
	d, err := a.DescribeTopic(within(t), "wide")
	if err != nil || len(d.Partitions) != manyPartitions {
		t.Fatalf("%d partitions, %v", len(d.Partitions), err)
	}
	// One record to every hundredth partition, and a consumer of all of them.
	p, err := client.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for n := uint32(0); n < manyPartitions; n += 100 {
		sent++
		if err := p.SendAsync(within(t), &pulsemq.Message{Topic: "wide", Partition: pulsemq.PartitionNumber(n), Value: []byte{1}}, func(r pulsemq.Result, err error) {
			if err != nil || r.Offset != 0 {
				t.Errorf("%+v, %v", r, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	var consumers []*pulsemq.Consumer
	for name, mode := range modes {
		k, err := client.NewConsumer(pulsemq.ConsumerMode(mode))
		if err != nil {
			t.Fatal(err)
		}
		consumers = append(consumers, k)
		if err := k.AssignTopic(within(t), "wide", pulsemq.StartEarliest()); err != nil {
			t.Fatal(err)
		}
		got := map[uint32]int64{}
		for len(got) < sent {
			records, err := k.Poll(within(t))
			if err != nil {
				t.Fatal(err)
			}
			for i := range records {
				got[records[i].Partition]++
			}
		}
		for partition, n := range got {
			if n != 1 || partition%100 != 0 {
				t.Errorf("%s: partition %d has %d records", name, partition, n)
			}
		}
	}
	if took, bytes := b.scrape(t); took > manyScrape {
		t.Errorf("a page of metrics of %d bytes took %v", bytes, took)
	}
	if grown := heapBytes() - heap; grown > manyClientMemory {
		t.Errorf("the client's heap has grown by %d bytes", grown)
	}
	for _, k := range consumers {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
	if taken := b.resident(t); taken > manyMemory+manyMemoryOver {
		t.Errorf("the broker takes %d bytes of memory, memory.limit is %d", taken, manyMemory)
	}
	for n := range 50 {
		name := fmt.Sprintf("passing-%d", n)
		if _, err := a.CreateTopic(within(t), pulsemq.TopicSpec{Name: name, Partitions: 4}); err != nil {
			t.Fatal(err)
		}
		p, err := client.NewProducer()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Send(within(t), &pulsemq.Message{Topic: name, Value: make([]byte, 100_000)}); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.DeleteTopic(within(t), name); err != nil {
			t.Fatal(err)
		}
	}
	if now := b.descriptors(t); now > files+manyDescriptors {
		t.Errorf("%d descriptors are open, at the start there were %d", now, files)
	}
	// Topics that were deleted leave nothing in the data folder.
	left, err := filepath.Glob(filepath.Join(b.data, "topics", "*"))
	if err != nil || len(left) > manyTopics+2 {
		t.Errorf("%d folders of topics, %v", len(left), err)
	}
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// scrape says how long it takes to read the page of metrics.
func (b *broker) scrape(t *testing.T) (took time.Duration, bytes int64) {
	t.Helper()
	// The first one has the shards begin to take pictures; on a machine with other things to do the best of a few counts.
	for n := 0; n < 2 || n < 10 && took > manyScrape; n++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		bytes, err = io.Copy(io.Discard, answer.Body)
		if answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", answer.Status, err)
		}
		took = time.Since(begun)
	}
	return took, bytes
}

// resident is the broker's memory, 0 where the system does not tell.
func (b *broker) resident(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.process.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nVmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Fatalf("no VmRSS in\n%s", status)
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// descriptors is how many files and sockets the broker has open, 0 where the system does not tell.
func (b *broker) descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.process.Process.Pid))
	if err != nil {
		return 0
	}
	return len(open)
}
