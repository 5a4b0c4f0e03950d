package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// Dead records are told with their reason, and taken out one by one or all; a broker that is killed forgets neither.
func TestQueueDiscard(t *testing.T) {
	b := &lagBroker{t, scriptBroker{program: buildBroker(t), data: filepath.Join(t.TempDir(), "data")}}
	t.Cleanup(b.kill)
	restart := func() {
		t.Helper()
		b.kill()
		if err := b.start(nil); err != nil {
			t.Fatal(err)
		}
	}
	restart()
	b.run("", "topic", "create", "t")
	b.run("a\nb\nc\nd\n", "produce", "t")
	client, err := pulsemq.Connect(t.Context(), "mq://"+b.process.Address)
	if err != nil {
		t.Fatal(err)
	}
	queue, err := client.NewQueueConsumer("g", pulsemq.QueueTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		m, err := queue.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.Offset == 3 {
			m.Ack()
		} else if err := m.Reject("no route to " + string(m.Value)).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(queue.Close(context.Background()), client.Close()); err != nil {
		t.Fatal(err)
	}
	check := func(wants []string, args ...string) {
		t.Helper()
		got := b.run("", args...)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%q says\n%swant %s", args, got, want)
			}
		}
	}
	restart()
	check([]string{`"low":0,"high":4,"end":4,"available":0,"leased":0,"delayed":0,"dying":0,"dead":3,"window":4,`,
		`{"offset":1,"attempt":1,"state":"dead","until_ms":-1,"reason":"no route to b"}`}, "queue", "describe", "g", "-o", "json")
	check([]string{"no route to c", "3  "}, "group", "describe", "g")
	check([]string{`"dead":3,"executed":false}`}, "queue", "discard", "g", "--topic", "t", "-o", "json")
	for _, args := range [][]string{{"3"}, {"3", "--execute"}, {"4"}} { // acknowledged, and not there yet
		var problem bytes.Buffer
		args = append([]string{"--brokers", b.process.Address, "queue", "discard", "g", "--topic", "t", "-p", "0", "--offset"}, args...)
		code := execute(t.Context(), streams{strings.NewReader(""), io.Discard, &problem}, args)
		if code != 1 || !strings.Contains(problem.String(), "is not dead") {
			t.Errorf("%q exits with %d: %s", args, code, problem.String())
		}
	}
	check([]string{`"dead":1,"executed":true}`}, "queue", "discard", "g", "--topic", "t", "-p", "0", "--offset", "1", "--execute", "-o", "json")
	check([]string{`"dead":2,"window":4,`}, "queue", "describe", "g", "-o", "json")
	check([]string{"partition 0: 2 dead records\ndiscarded 2 records\n"}, "queue", "discard", "g", "--topic", "t", "--execute")
	restart()
	check([]string{`"low":4,"high":4,"end":4,`, `"dead":0,"window":0,`}, "queue", "describe", "g", "-o", "json")
}
