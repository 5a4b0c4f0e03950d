package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// lagBroker is a broker whose groups are looked at in two ways.
type lagBroker struct {
	*testing.T
	scriptBroker
}

// run runs pulsectl in this process; it has to go well.
func (b *lagBroker) run(input string, args ...string) string {
	b.Helper()
	var out, problem bytes.Buffer
	args = append([]string{"--brokers", b.process.Address}, args...)
	if code := execute(context.Background(), streams{strings.NewReader(input), &out, &problem}, args); code != exitOK {
		b.Fatalf("pulsectl %q exits with %d: %s", args, code, problem.String())
	}
	return out.String()
}

// lag is what `pulsectl group lag` says, summed over partitions as the page does.
func (b *lagBroker) lag(group string) (records int64, seconds float64) {
	b.Helper()
	for line := range strings.Lines(b.run("", "group", "lag", group, "-o", "json")) {
		var l groupLag
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			b.Fatalf("%q: %v", line, err)
		}
		if records += l.Lag; l.LagSeconds != nil {
			seconds = max(seconds, *l.LagSeconds)
		}
	}
	return records, seconds
}

// page reads one series.
func (b *lagBroker) page(series string) float64 {
	b.Helper()
	answer, err := http.Get("http://" + b.process.Admin + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				b.Fatal(err)
			}
			return v
		}
	}
	return math.NaN()
}

// agree waits until both say so many records, and an age of at least so many seconds that
// differs by no more than both may be late.
func (b *lagBroker) agree(records int64, least float64) {
	b.Helper()
	const fresh = 1.0 // a page may be so many seconds old
	for end := time.Now().Add(20 * time.Second); ; {
		began := time.Now()
		r, s := b.lag("g")
		pageRecords, pageSeconds := b.page(`pulsemq_group_lag_records{group="g"}`), b.page(`pulsemq_group_lag_seconds{group="g"}`)
		took := time.Since(began).Seconds()
		if r != records {
			b.Fatalf("pulsectl says %d records, want %d", r, records)
		}
		if pageRecords == float64(records) && s >= least && math.Abs(pageSeconds-s) <= fresh+took+0.05 {
			if records == 0 && (s != 0 || pageSeconds != 0) {
				b.Fatalf("nothing is behind, and the ages are %v and %v s", s, pageSeconds)
			}
			return
		}
		if time.Now().After(end) {
			b.Fatalf("pulsectl says %d records and %v s, the page %v and %v", r, s, pageRecords, pageSeconds)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The page follows what `pulsectl group lag` says: when records come, when some are committed,
// through a kill -9, and when all are.
func TestLagMetricFollowsTheGroup(t *testing.T) {
	b := &lagBroker{t, scriptBroker{program: buildBroker(t), data: filepath.Join(t.TempDir(), "data")}}
	t.Cleanup(b.kill)
	start := func() {
		t.Helper()
		if err := b.start(nil); err != nil {
			t.Fatal(err)
		}
	}
	seek := func(partition, to string) {
		t.Helper()
		b.run("", "group", "seek", "g", "--topic", "t", "-p", partition, "--to", to, "--create", "--execute")
	}
	start()
	b.run("", "topic", "create", "t", "--partitions", "2")
	b.run("1\n2\n3\n4\n5\n", "produce", "t", "-p", "0")
	b.run("1\n2\n3\n", "produce", "t", "-p", "1")
	seek("0", "2")
	seek("1", "end")
	b.agree(3, 0)
	b.run("4\n5\n", "produce", "t", "-p", "1")
	b.agree(5, 2)
	b.kill()
	start()
	b.agree(5, 2.5) // the age is that of the records, not of this life
	seek("0", "end")
	b.agree(2, 1)
	b.run("", "consume", "t", "-g", "g", "-n", "2")
	b.agree(0, 0)
	if size, members := b.page(`pulsemq_group_size{group="g"}`), b.page(`pulsemq_group_members{shard="0"}`); size != 0 || members != 0 {
		t.Errorf("the group has %v members, all groups %v", size, members)
	}
	if rebalances, seconds := b.page(`pulsemq_group_rebalances_total{shard="0"}`), b.page(`pulsemq_group_rebalance_seconds_total{shard="0"}`); seconds > 60*rebalances {
		t.Errorf("%v rebalances took %v s", rebalances, seconds)
	}
}

// --watch shows the lag again until it is interrupted, also when the broker is away meanwhile.
func TestLagIsWatched(t *testing.T) {
	b := &lagBroker{t, scriptBroker{program: buildBroker(t), data: filepath.Join(t.TempDir(), "data")}}
	t.Cleanup(b.kill)
	if err := b.start(nil); err != nil {
		t.Fatal(err)
	}
	b.run("", "topic", "create", "t")
	b.run("1\n", "produce", "t")
	b.run("", "group", "seek", "g", "--topic", "t", "--to", "start", "--create", "--execute")
	out, in := io.Pipe()
	problems, told := io.Pipe()
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	var watching sync.WaitGroup
	code := -1
	watching.Go(func() {
		code = execute(ctx, streams{strings.NewReader(""), in, told}, []string{"--brokers", b.process.Address, "--timeout", "500ms",
			"group", "lag", "g", "--watch", "--every", "10ms", "-o", "json"})
		in.Close()
		told.Close()
	})
	lines, warnings := make(chan string), make(chan string)
	follow := func(from io.Reader, to chan string) {
		for {
			var line [4096]byte
			n, err := from.Read(line[:])
			if err != nil {
				close(to)
				return
			}
			to <- string(line[:n])
		}
	}
	go follow(out, lines)
	go follow(problems, warnings)
	until := func(what string, from chan string, have string) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for {
			select {
			case line := <-from:
				if strings.Contains(line, have) {
					return
				}
			case line := <-warnings:
				if from == lines {
					t.Fatalf("it is told %s", line)
				}
			case <-lines:
			case <-limit:
				t.Fatalf("%s was not shown", what)
			}
		}
	}
	until("the first lag", lines, `"committed":0,"end":1,"lag":1,"lag_seconds":`)
	b.run("2\n", "produce", "t")
	until("the next lag", lines, `"committed":0,"end":2,"lag":2,`)
	b.kill()
	until("a broker that is away", warnings, "pulsectl: ")
	interrupt()
	go func() { // what is shown until it ends
		for range lines {
		}
	}()
	go func() {
		for range warnings {
		}
	}()
	watching.Wait()
	if code != exitOK {
		t.Errorf("an interrupted watch exits with %d", code)
	}
	if code := execute(context.Background(), streams{strings.NewReader(""), io.Discard, io.Discard}, []string{"group", "lag", "--every", "0s"}); code != exitUsage {
		t.Errorf("--every 0s exits with %d", code)
	}
}
