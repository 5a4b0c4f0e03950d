package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/bench/peers/nats"
)

// A peer starts this program again as its server; in tests this program is the test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve-nats" {
		main()
	}
	os.Exit(m.Run())
}

// scripted is a peer that writes down what is asked of it.
type scripted struct {
	calls []string
	acked int64
	fail  string // the call that fails
}

func (s *scripted) call(name string) error {
	s.calls = append(s.calls, name)
	if name == s.fail {
		return errors.New(name + " fails")
	}
	return nil
}

func (s *scripted) Start(context.Context, string) error     { return s.call("start") }
func (s *scripted) Prepare(context.Context, Workload) error { return s.call("prepare") }
func (s *scripted) Publish(_ context.Context, w Workload) (Outcome, error) {
	return Outcome{Acked: s.acked, Took: w.Duration}, s.call("publish")
}
func (s *scripted) Verify(context.Context, Outcome) error { return s.call("verify") }
func (s *scripted) Stop() error                           { return s.call("stop") }

func settings(t *testing.T) Settings {
	return Settings{Folder: t.TempDir(), Runs: 1, Duration: time.Second, Streams: []int{2}, Say: t.Logf}
}

func TestTurnStopsWhatItStarted(t *testing.T) {
	s := settings(t)
	s.Warmup = time.Second
	p := &scripted{acked: 10}
	o, err := turn(t.Context(), s, p, Workload{Duration: 2 * time.Second})
	if err != nil || o.PerSecond() != 5 {
		t.Errorf("%v messages/s, %v", o.PerSecond(), err)
	}
	if want := []string{"start", "prepare", "publish", "verify", "prepare", "publish", "verify", "stop"}; !slices.Equal(p.calls, want) {
		t.Errorf("the calls are %v", p.calls)
	}
	for _, fail := range []string{"start", "prepare", "publish", "verify"} {
		p := &scripted{acked: 10, fail: fail}
		if _, err := turn(t.Context(), s, p, Workload{Duration: time.Second}); err == nil || !strings.Contains(err.Error(), fail) || p.calls[len(p.calls)-1] != "stop" {
			t.Errorf("when %s fails: %v, the calls are %v", fail, err, p.calls)
		}
	}
	if _, err := turn(t.Context(), s, &scripted{}, Workload{Duration: time.Second}); err == nil {
		t.Error("a run that acknowledges nothing is one")
	}
	if left, err := os.ReadDir(s.Folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBestOfANameIsHeldAgainstTheFloor(t *testing.T) {
	rate := func(n int64) func() Peer { return func() Peer { return &scripted{acked: n} } }
	c := Contest{
		Shapes: func(s Settings) (Workload, Workload) {
			w := Workload{Duration: s.Duration}
			return w, w
		},
		Contestants: func(Settings) []Contestant {
			return []Contestant{{"ours", "", rate(1000)}, {"theirs", "1", rate(10)}, {"theirs", "8", rate(200)}, {"other", "1", rate(100)},
				{"broken", "1", func() Peer { return &scripted{acked: 1, fail: "verify"} }}}
		},
		Floors: map[string]float64{"theirs": 6, "other": 6},
	}
	s := settings(t)
	s.Runs = 3
	got, err := c.run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got[1].Best || !got[2].Best || got[2].Ratio != 5 || got[2].FloorMet || !got[3].Best || got[3].Ratio != 10 || !got[3].FloorMet || len(got[3].Rates) != 3 {
		t.Errorf("%+v", got)
	}
	if got[4].Failed == "" || got[4].Best {
		t.Errorf("a peer that does not verify has figures: %+v", got[4])
	}
	result := &Result{Runs: 3, Contests: []Table{{Workload: "a load", Standings: got}}}
	var text bytes.Buffer
	if err := errors.Join(result.WriteTable(&text), result.WriteMarkdown(&text)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| theirs | 8 | 200 | 200 to 200 | - | 5.00 x | at least 6 x | not met |", "| other | 1 | 100 | 100 to 100 | - | 10.00 x | at least 6 x | met |", "failed: what was acknowledged does not verify"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestJetStreamTakesPart(t *testing.T) {
	for _, fast := range []bool{false, true} {
		for _, sync := range []string{nats.SyncAlways, nats.SyncDefault} {
			w := Workload{RecordBytes: 64, BatchRecords: 1, Connections: 3, InFlight: 4, Duration: 100 * time.Millisecond}
			o, err := turn(t.Context(), settings(t), &jetstream{sync: sync, streams: 2, fast: fast}, w)
			if err != nil || o.Acked == 0 {
				t.Errorf("sync %s, fast %v: %+v, %v", sync, fast, o, err)
			}
			if !fast && o.P50 == 0 {
				t.Errorf("sync %s: no latency", sync)
			}
		}
	}
}

func TestMessagesThatAreMissingAreFound(t *testing.T) {
	j := &jetstream{sync: nats.SyncDefault, streams: 2}
	if err := j.Start(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	defer j.Stop()
	w := Workload{RecordBytes: 64, Connections: 3, InFlight: 4, Duration: 20 * time.Millisecond}
	if err := j.Prepare(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	o, err := j.Publish(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	j.published.ByCounter[1]++
	if err := j.Verify(t.Context(), o); err == nil || !strings.Contains(err.Error(), "producer 1") {
		t.Errorf("one message that is not there: %v", err)
	}
}

// The whole of it, with programs built here, as make bench-peers has it.
func TestOursTakesPart(t *testing.T) {
	programs, out := t.TempDir(), t.TempDir()
	for _, name := range []string{"pulsemq", "pulsebench"} {
		if text, err := exec.Command("go", "build", "-C", "../..", "-o", filepath.Join(programs, name), "./cmd/"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	var table, log bytes.Buffer
	err := run(t.Context(), []string{"-programs", programs, "-dir", t.TempDir(), "-runs", "1", "-duration", "100ms", "-warmup", "0", "-streams", "1", "-contests", "batches", "-out", out}, &table, &log)
	if err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	text, err := os.ReadFile(filepath.Join(out, "peers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var result Result
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	if s := result.Contests[0].Standings; len(s) != 2 || s[0].Median <= 0 || s[1].Median <= 0 || s[1].Failed != "" || !s[1].Best {
		t.Errorf("%+v", s)
	}
	page, err := os.ReadFile(filepath.Join(out, "peers.md"))
	if err != nil {
		t.Fatal(err)
	}
	name, _ := os.Hostname()
	for _, secret := range []string{programs, out, name, "127.0.0.1"} {
		if secret != "" && strings.Contains(string(page)+string(text), secret) {
			t.Errorf("%s names this machine: it says %s", "peers.md or peers.json", secret)
		}
	}
	if want := "bin/peers -contests=batches -duration=100ms -runs=1 -streams=1 -warmup=0s"; !strings.Contains(string(page), want) {
		t.Errorf("the page is repeated with something else than %s:\n%s", want, page)
	}
	if !strings.Contains(table.String(), ourName) || !strings.Contains(table.String(), natsFastName) {
		t.Errorf("the table is\n%s", table.String())
	}
}

func TestEveryFaultAtOnce(t *testing.T) {
	err := run(t.Context(), []string{"-programs", t.TempDir(), "-runs", "0", "-streams", "x", "-contests", "none", "-duration", "0"}, new(bytes.Buffer), new(bytes.Buffer))
	for _, want := range []string{"-runs", "-streams", "-contests", "-duration", "make build"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// The page that explains the benchmarks names the floors that contests are held against.
func TestFloorsAreThoseOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/benchmarks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	for _, c := range contests() {
		for name, times := range c.Floors {
			want := map[string]string{
				natsAlwaysName: "at least %v times as much as with its `sync_interval: always`",
				natsName:       "%v times as much as with its default settings",
				natsFastName:   "at least %v times as much as the best of its fast batch publish with 1, 8 and 128 streams",
			}[name]
			if want == "" || !strings.Contains(words, fmt.Sprintf(want, times)) {
				t.Errorf("docs/benchmarks/README.md does not say that the floor against %s is %v times", name, times)
			}
		}
	}
}
