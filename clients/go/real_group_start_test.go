package pulsemq_test

import (
	"errors"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// TestRealBrokerGroupStart begins where a group has never committed: at the earliest record, the latest, a time, or
// nowhere, which the application is told. The next member goes on where the group has committed, whatever its option.
func TestRealBrokerGroupStart(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t))
	for name, c := range map[string]struct {
		option   pulsemq.GroupOption
		assigned string
		first    string // of the numbers 0 to 4, and then 5
	}{
		"earliest": {pulsemq.GroupStart(pulsemq.StartEarliest()), "assigned 0@0", "0 1 2 3 4 5"},
		"latest":   {pulsemq.GroupStart(pulsemq.StartLatest()), "assigned 0@5", "5"},
		"time":     {pulsemq.GroupStart(pulsemq.StartTime(numbersBegin.Add(2500 * time.Millisecond))), "assigned 0@3", "3 4 5"},
		"late":     {pulsemq.GroupStart(pulsemq.StartTime(numbersBegin.Add(time.Hour))), "assigned 0@5", "5"},
		"none":     {pulsemq.GroupStartNone(), "assigned 0@-1", "2 3 4 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groupTopic(t, client, name, 1, 5)
			a := openApp(t, client, name, name, c.option).run(nil)
			eventually(t, func() bool { return a.called(c.assigned) })
			if name == "none" {
				told := a.tells()
				if !errors.Is(told, pulsemq.ErrNoOffset) || !told.Stopped || told.Topic != name || told.Partition != 0 || told.Base != 0 {
					t.Fatalf("told: %+v", told)
				}
				if err := a.Seek(within(t), name, 0, pulsemq.StartOffset(2)); err != nil {
					t.Fatal(err)
				}
			}
			sendNumbers(t, client, name, 1, 5, 6)
			a.sees(c.first)
			a.stop()
			if at := committed(t, client, name, 0); at != 6 {
				t.Fatalf("committed is %d", at)
			}
			sendNumbers(t, client, name, 1, 6, 7)
			again := openApp(t, client, name, name, c.option).run(nil)
			again.sees("6")
			again.stop()
			if !again.called("assigned 0@6") || len(again.errors()) != 0 {
				t.Errorf("the next member: %v, told %v", again.callbacks(), again.errors())
			}
		})
	}
}

// TestRealBrokerGroupStartIsCommitted begins at the latest record, in a member that leaves commits to its application: the
// group is not behind by what it never wants to read.
func TestRealBrokerGroupStartIsCommitted(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t))
	groupTopic(t, client, "begun", 2, 5)
	latest := []pulsemq.GroupOption{pulsemq.GroupStart(pulsemq.StartLatest()), pulsemq.GroupAutoCommit(0)}
	a := openApp(t, client, "g", "begun", latest...).run(nil)
	eventually(t, func() bool {
		return committed(t, client, "g", 0)+committed(t, client, "g", 1) == 5
	})
	a.stop()
}

// TestRealBrokerGroupReset trims a log above what its group has committed. The member follows its policy, the application
// is told in every case, and once.
func TestRealBrokerGroupReset(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t))
	for name, c := range map[string]struct {
		option pulsemq.ConsumerOption
		next   int64
		sees   string // of the numbers 6 to 9 that are left, and then 10
	}{
		"error":    {pulsemq.ConsumerReset(pulsemq.ConsumerResetError), 3, "8 9 10"},
		"earliest": {pulsemq.ConsumerReset(pulsemq.ConsumerResetEarliest), 6, "6 7 8 9 10"},
		"latest":   {pulsemq.ConsumerReset(pulsemq.ConsumerResetLatest), 10, "10"},
		"time":     {pulsemq.ConsumerResetAt(numbersBegin.Add(7500 * time.Millisecond)), 8, "8 9 10"},
		"early":    {pulsemq.ConsumerResetAt(numbersBegin), 6, "6 7 8 9 10"},
	} {
		for mode, kind := range modes {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				topic := name + "-" + mode
				groupTopic(t, client, topic, 1, 10)
				if err := client.Admin().SeekGroup(within(t), topic, topic, map[uint32]int64{0: 3}, false); err != nil {
					t.Fatal(err)
				}
				if _, err := client.Admin().DeleteRecords(within(t), topic, 0, 6); err != nil {
					t.Fatal(err)
				}
				a := openApp(t, client, topic, topic, pulsemq.GroupReads(c.option, pulsemq.ConsumerMode(kind))).run(nil)
				told := a.tells()
				var refusal *pulsemq.Error
				if !errors.Is(told, pulsemq.ErrOffsetOutOfRange) || !errors.As(told, &refusal) || refusal.Offsets == nil || refusal.Offsets.Earliest != 6 || refusal.Offsets.Latest != 10 {
					t.Fatalf("told: %+v", told)
				}
				if told.Base != 3 || told.Next != c.next || told.Stopped != (name == "error") {
					t.Fatalf("told: %+v", told)
				}
				if told.Stopped {
					if err := a.Seek(within(t), topic, 0, pulsemq.StartOffset(8)); err != nil {
						t.Fatal(err)
					}
				}
				eventually(t, func() bool { return name == "error" || committed(t, client, topic, 0) >= c.next })
				sendNumbers(t, client, topic, 1, 10, 11)
				a.sees(c.sees)
				a.stop()
				if n := len(a.errors()); n != 1 {
					t.Errorf("told %d times: %v", n, a.errors())
				}
				if at := committed(t, client, topic, 0); at != 11 {
					t.Errorf("committed is %d", at)
				}
			})
		}
	}
}

// TestRealBrokerGroupTellsBetweenRecords has something to tell while a record is processed: the loop hears of it before
// the next record, and misses neither.
func TestRealBrokerGroupTellsBetweenRecords(t *testing.T) {
	t.Parallel()
	client := connect(t, realBroker(t))
	groupTopic(t, client, "t-old", 1, 3)
	if err := client.Admin().SeekGroup(within(t), "g", "t-old", map[uint32]int64{0: 0}, false); err != nil {
		t.Fatal(err)
	}
	busy, release := make(chan struct{}), make(chan struct{})
	a := openApp(t, client, "g", "t-other", pulsemq.GroupPattern("t-.*"), pulsemq.GroupStartNone())
	a.run(func(r *pulsemq.Record) {
		switch r.Offset {
		case 0:
			close(busy)
			<-release
		case 1:
			if len(a.errors()) == 0 {
				t.Error("the next record comes first")
			}
		}
	})
	<-busy
	groupTopic(t, client, "t-new", 1, 0)
	eventually(t, func() bool { return a.called("assigned 0@-1") })
	close(release)
	a.sees("0 1 2")
	if told := a.tells(); told.Topic != "t-new" || !errors.Is(told, pulsemq.ErrNoOffset) {
		t.Errorf("told: %+v", told)
	}
	a.stop()
}
