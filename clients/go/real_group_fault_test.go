package pulsemq_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// memberVariable makes a process of this test program a member of a group: it holds the broker's address.
const memberVariable = "GROUP_MEMBER_OF"

const (
	zombieGroup   = "zombies"
	zombieRecords = 50_000
)

// memberMain is such a process: it commits each record by itself and says so, until something goes wrong.
func memberMain(address string) int {
	ctx := context.Background()
	client, err := pulsemq.Connect(ctx, address)
	if err != nil {
		fmt.Println("connect:", err)
		return 1
	}
	group, err := client.NewGroupConsumer(zombieGroup, pulsemq.GroupTopics(zombieGroup), pulsemq.GroupSessionTimeout(time.Second), pulsemq.GroupAutoCommit(0),
		pulsemq.GroupOnLost(func([]pulsemq.GroupPartition) {
			fmt.Println("lost")
			os.Exit(0)
		}))
	if err != nil {
		fmt.Println("join:", err)
		return 1
	}
	for r, err := range group.Records(ctx) {
		if err == nil {
			err = group.CommitOffset(ctx, r.Topic, r.Partition, r.Offset+1)
		}
		if err != nil {
			fmt.Println("refused:", err)
			return 0
		}
		fmt.Println("committed", r.Offset+1)
	}
	return 1
}

// TestRealBrokerZombieMember stops the process of a member in the middle of its commits, as a debugger or a sleeping
// machine does, until another one has its partition. When it goes on, its next commit is refused, unless it hears first
// that the partition is lost, and moves nothing.
func TestRealBrokerZombieMember(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	client := connect(t, b)
	groupTopic(t, client, zombieGroup, 1, zombieRecords)
	zombie := exec.Command(os.Args[0])
	zombie.Env = append(os.Environ(), memberVariable+"="+b.address)
	out, err := zombie.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { zombie.Process.Kill(); zombie.Wait() })
	lines := bufio.NewScanner(out)
	last := ""
	for range 20 {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "committed ") {
			t.Fatalf("the member says %q, %v", lines.Text(), lines.Err())
		}
		last = lines.Text()
	}
	if err := zombie.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	a := openApp(t, client, zombieGroup, zombieGroup).run(func(*pulsemq.Record) { <-release })
	eventually(t, func() bool { return len(a.callbacks()) > 0 })
	var from int
	if _, err := fmt.Sscanf(a.callbacks()[0], "assigned 0@%d", &from); err != nil || from < 20 {
		t.Fatalf("who takes over: %v", a.callbacks())
	}
	if err := zombie.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() && strings.HasPrefix(lines.Text(), "committed ") {
		last = lines.Text()
	}
	if !strings.HasPrefix(lines.Text(), "refused: ") && lines.Text() != "lost" {
		t.Errorf("after %q the zombie says %q", last, lines.Text())
	}
	// What it says to have committed is what the other one has begun with, at most.
	if n, err := strconv.Atoi(strings.TrimPrefix(last, "committed ")); err != nil || n > from {
		t.Errorf("the zombie says %q, and the group went on at %d", last, from)
	}
	if at := committed(t, client, zombieGroup, 0); at != int64(from) {
		t.Errorf("the zombie has moved the group from %d to %d", from, at)
	}
	close(release)
	eventually(t, func() bool { return len(a.values()) == zombieRecords-from })
	if first := a.values()[0]; first != strconv.Itoa(from) {
		t.Errorf("the other one has begun at %s, and not at %d", first, from)
	}
	// The zombie may have joined anew before it ended, which is an epoch of the group, and takes nothing from anybody.
	if calls := a.callbacks(); len(calls) != 1 {
		t.Errorf("the other one is told %v", calls)
	}
	a.stop()
}

// count is a number that a variable of the environment makes larger, for the long form of a test.
func count(t *testing.T, variable string, short int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return short
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: a number from 1 on is allowed", variable, text)
	}
	return n
}

// owners is who has each partition, as the members' callbacks tell.
type owners struct {
	t  *testing.T
	mu sync.Mutex
	of map[uint32]string
}

func (o *owners) options(member string) []pulsemq.GroupOption {
	gone := func(how string) func([]pulsemq.GroupPartition) {
		return func(places []pulsemq.GroupPartition) {
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, p := range places {
				if who := o.of[p.Partition]; who != member {
					o.t.Errorf("partition %d is %s by %s, and %s has it", p.Partition, how, member, who)
				}
				delete(o.of, p.Partition)
			}
		}
	}
	return []pulsemq.GroupOption{
		pulsemq.GroupOnAssigned(func(places []pulsemq.GroupPartition) {
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, p := range places {
				if who, taken := o.of[p.Partition]; taken {
					o.t.Errorf("partition %d is given to %s, and %s has it", p.Partition, member, who)
				}
				o.of[p.Partition] = member
			}
		}),
		pulsemq.GroupOnRevoked(gone("given up")), pulsemq.GroupOnLost(gone("lost")),
	}
}

func (o *owners) owned() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.of)
}

// TestRealBrokerManyMembers has many members join and leave, a part of them without a pause, while others stay. At every
// moment a partition has one owner; when it is over every partition has exactly one, nothing moves any more, and every
// record that came meanwhile was processed. GROUP_MEMBERS=200 GROUP_ROUNDS=100 is the long form.
func TestRealBrokerManyMembers(t *testing.T) {
	t.Parallel()
	members, rounds := count(t, "GROUP_MEMBERS", 18), count(t, "GROUP_ROUNDS", 2)
	partitions := 4 * members / 3
	b := realBroker(t)
	client := connect(t, b)
	if _, err := client.Admin().CreateTopic(within(t), pulsemq.TopicSpec{Name: "t", Partitions: uint32(partitions)}); err != nil {
		t.Fatal(err)
	}
	o := &owners{t: t, of: map[uint32]string{}}
	run := &groupRun{t: t, seen: map[string]int{}, moved: make(chan struct{}, 1)}
	join := func(name string) *groupApp {
		options := append(o.options(name), pulsemq.GroupSessionTimeout(10*time.Minute), pulsemq.GroupRebalanceTimeout(10*time.Minute), pulsemq.GroupClientName(name))
		return openApp(t, client, "g", "t", options...).run(run.process)
	}
	stay := make([]*groupApp, members)
	var churn sync.WaitGroup
	sent := 0
	for m := range members {
		name := fmt.Sprint("member-", m)
		churn.Go(func() {
			random := rand.New(rand.NewPCG(uint64(m), 1))
			for round := range rounds {
				a := join(fmt.Sprint(name, "-", round))
				if random.IntN(3) > 0 { // else it leaves as soon as it has joined
					if !becomes(t, func() bool { return len(a.Assignment()) > 0 || o.owned() == partitions }) {
						t.Errorf("%s-%d has nothing, and %d partitions are with somebody", name, round, o.owned())
					}
				}
				a.stop()
			}
			stay[m] = join(name)
		})
	}
	for range 4 {
		produceMany(t, client, sent, sent+partitions, partitions)
		sent += partitions
	}
	churn.Wait()
	eventually(t, func() bool {
		d, err := client.Admin().DescribeGroup(within(t), "g")
		return err == nil && d.State == pulsemq.GroupSettled && len(d.Members) == members && o.owned() == partitions
	})
	epoch := epochOf(t, client, "g")
	produceMany(t, client, sent, sent+partitions, partitions)
	sent += partitions
	run.until(within(t), sent)
	// Every member was heard of since.
	since := time.Now()
	eventually(t, func() bool {
		d, err := client.Admin().DescribeGroup(within(t), "g")
		for _, m := range d.Members {
			if m.Heard > time.Since(since) {
				return false
			}
		}
		return err == nil
	})
	if now := epochOf(t, client, "g"); now != epoch {
		t.Errorf("the group goes on moving: epoch %d, before %d", now, epoch)
	}
	loads := map[int]int{}
	for _, a := range stay {
		loads[len(a.Assignment())]++
	}
	if len(loads) > 2 {
		t.Errorf("members by how many partitions they have: %v", loads)
	}
	var closing sync.WaitGroup
	for _, a := range stay {
		closing.Go(a.stop)
	}
	closing.Wait()
	if n := o.owned(); n != 0 {
		t.Errorf("%d partitions are left with somebody", n)
	}
}

// TestRealBrokerIdleGroup keeps a member that has nothing to do past the retention of offsets, twice. A group without
// members is forgotten meanwhile, and goes with all its offsets.
func TestRealBrokerIdleGroup(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t, "--set", "offsets.retention=1s"))
	groupTopic(t, client, "t", 1, 3)
	idle := openApp(t, client, "idle", "t").run(nil)
	idle.sees("0 1 2")
	eventually(t, func() bool { return committed(t, client, "idle", 0) == 3 })
	for n := range 2 {
		group := fmt.Sprint("dead-", n)
		dead := openApp(t, client, group, "t").run(nil)
		dead.sees("0 1 2")
		dead.stop()
		if at := committed(t, client, group, 0); at != 3 {
			t.Fatalf("%s has committed %d", group, at)
		}
		eventually(t, func() bool {
			_, err := client.Admin().DescribeGroup(within(t), group)
			return errors.Is(err, pulsemq.ErrUnknownGroup)
		})
		if at := committed(t, client, group, 0); at != -1 {
			t.Errorf("%s is forgotten, and %d is committed", group, at)
		}
	}
	if at := committed(t, client, "idle", 0); at != 3 {
		t.Errorf("the group that lives has committed %d", at)
	}
	id := idle.MemberID()
	sendNumbers(t, client, "t", 1, 3, 4)
	idle.sees("0 1 2 3")
	if idle.MemberID() != id {
		t.Error("it had to join anew")
	}
	idle.stop()
}

// heap is what lives on the broker's heap.
func (b *broker) heap(t *testing.T) int64 {
	t.Helper()
	request, err := http.NewRequestWithContext(within(t), http.MethodGet, "http://"+b.admin+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`).FindSubmatch(page)
	if found == nil {
		t.Fatalf("the broker does not tell its heap: %s, %.200s", answer.Status, page)
	}
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRealBrokerManyGroups has many groups live and die, by deletion and by their time. Nothing is left of them, and the
// broker's memory is what it was. GROUP_LIVES=100000 is the long form.
func TestRealBrokerManyGroups(t *testing.T) {
	t.Parallel()
	lives := count(t, "GROUP_LIVES", 300)
	b := realBroker(t, "--set", "offsets.retention=1s", "--set", "admin.pprof=true")
	client := connect(t, b)
	groupTopic(t, client, "t", 2, 4)
	live := func(from, to int) {
		names := make(chan string)
		var workers sync.WaitGroup
		for range 16 {
			workers.Go(func() {
				for name := range names {
					a := openApp(t, client, name, "t", pulsemq.GroupAutoCommit(time.Hour)).run(nil)
					if !becomes(t, func() bool { return len(a.values()) == 4 }) {
						t.Errorf("%s has processed %v", name, a.values())
					}
					a.stop()
					if len(name)%2 == 0 {
						if err := client.Admin().DeleteGroup(within(t), name); err != nil && !errors.Is(err, pulsemq.ErrUnknownGroup) { // its time may be over
							t.Error(err)
						}
					}
				}
			})
		}
		for n := from; n < to; n++ {
			names <- fmt.Sprintf("group-%d%.*s", n, n%2, "x")
		}
		close(names)
		workers.Wait()
		eventually(t, func() bool {
			for _, err := range client.Admin().ListGroups(within(t)) {
				return err != nil // one is left
			}
			return true
		})
	}
	live(0, lives/3) // so that what grows once has grown
	before := b.heap(t)
	live(lives/3, lives)
	grown := b.heap(t) - before
	t.Logf("%d groups lived and died; the heap has grown by %d bytes from %d", lives-lives/3, grown, before)
	if most := int64(512<<10 + 40*(lives-lives/3)); grown > most {
		t.Errorf("the broker's heap has grown by %d bytes for %d groups; allowed are %d", grown, lives-lives/3, most)
	}
	offsets, err := client.Admin().GroupOffsets(within(t), "group-0")
	if err != nil || len(offsets) != 0 {
		t.Errorf("offsets of a group that is gone: %v, %v", offsets, err)
	}
}

// TestRealBrokerGroupHoldsNothing has a member keep a record in hand while many times what a partition may keep passes.
// The log does not grow for it: its offset goes, and when it comes back it is told what it has missed. The commits of a
// group that goes along hold nothing either. GROUP_MEGABYTES=1024 is the long form.
func TestRealBrokerGroupHoldsNothing(t *testing.T) {
	t.Parallel()
	const kept, segment = 1 << 20, 2 << 20
	client := connect(t, realBroker(t, "--set", "storage.retention-interval=200ms"))
	spec := pulsemq.TopicSpec{Name: "t", Partitions: 1, Config: map[string]string{"retention.bytes": strconv.Itoa(kept), "segment.bytes": strconv.Itoa(segment)}}
	if _, err := client.Admin().CreateTopic(within(t), spec); err != nil {
		t.Fatal(err)
	}
	sendNumbers(t, client, "t", 1, 0, 2)
	busy, release := make(chan struct{}), make(chan struct{})
	slow := openApp(t, client, "slow", "t", pulsemq.GroupReads(pulsemq.ConsumerReset(pulsemq.ConsumerResetEarliest), pulsemq.ConsumerPollRecords(1))).run(func(r *pulsemq.Record) {
		if r.Offset == 1 {
			close(busy)
			<-release
		}
	})
	fast := openApp(t, client, "fast", "t").run(nil)
	<-busy
	p, err := client.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	for range count(t, "GROUP_MEGABYTES", 16) * 4 {
		if _, err := p.Send(within(t), &pulsemq.Message{Topic: "t", Value: make([]byte, 256<<10)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	var size, start int64
	if !becomes(t, func() bool {
		d, err := client.Admin().DescribeTopic(within(t), "t")
		if err != nil {
			t.Fatal(err)
		}
		size, start = int64(d.Partitions[0].SizeBytes), d.Partitions[0].LogStartOffset
		return size <= kept+3*segment
	}) {
		t.Fatalf("the log has %d bytes from offset %d on, and may keep %d", size, start, kept)
	}
	if start < 2 {
		t.Fatalf("the log starts at %d", start)
	}
	close(release)
	told := slow.tells()
	if !errors.Is(told, pulsemq.ErrOffsetOutOfRange) || told.Stopped || told.Next < start {
		t.Errorf("told: %+v; the log starts at %d", told, start)
	}
	eventually(t, func() bool { return len(slow.values()) > 2 && slow.Positions()[0].Lag() == 0 })
	slow.stop()
	fast.stop()
}
