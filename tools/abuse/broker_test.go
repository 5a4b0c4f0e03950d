package abuse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/tools/process"
)

const (
	memoryLimit = 256 << 20
	// rssMax is the limit with the program itself and what the collector has not given back yet.
	rssMax = memoryLimit + 96<<20

	keepalive         = time.Second
	idleTimeout       = 3 * time.Second
	slowReaderTimeout = time.Second

	answerWait = 30 * time.Second
	// slack is what a deadline of the broker may be late by on a machine with other work.
	slack = 15 * time.Second

	logLinesMax = 5000
)

// handshakeTimeout is longer in the long form, so that all the idle connections are open together.
var handshakeTimeout = time.Duration(pick(1, 30)) * time.Second

// long asks for the long form of every case.
var long = os.Getenv("ABUSE") == "long"

// pick is n, or more in the long form.
func pick(short, more int) int {
	if long {
		return more
	}
	return short
}

// broker is a process under abuse, with the topic that the abuse is about.
type broker struct {
	process *process.Process
	log     string
	data    string
	client  *pulsemq.Client
	topic   pulsemq.TopicID // "scapegoat"

	rssMost atomic.Int64
}

// startBroker builds and starts one, with short deadlines and little memory.
func startBroker(t *testing.T) *broker {
	if testing.Short() {
		t.Skip("it starts a broker")
	}
	b := &broker{log: filepath.Join(t.TempDir(), "log"), data: filepath.Join(t.TempDir(), "in", "data")}
	raiseDescriptors(uint64(pick(0, 24_000))) // the broker takes over what is allowed here
	programs := t.TempDir()
	if err := process.Build(programs, "pulsemq"); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"--data-dir", b.data, "--listen", "0.0.0.0:0", "--admin", "127.0.0.1:0"}
	for key, value := range map[string]string{
		"network.advertised-host":     "127.0.0.1",
		"memory.limit":                strconv.Itoa(memoryLimit>>20) + "MiB",
		"network.handshake-timeout":   handshakeTimeout.String(),
		"network.keepalive":           keepalive.String(),
		"network.idle-timeout":        idleTimeout.String(),
		"network.slow-reader-timeout": slowReaderTimeout.String(),
		"network.max-connections":     strconv.Itoa(pick(3000, 25_000)),
		"storage.min-free":            "16MiB",
		"storage.journal-size":        "64MiB",
		"storage.journal-file-size":   "8MiB",
		"broker.pin-threads":          "false",
	} {
		arguments = append(arguments, "--set", key+"="+value)
	}
	var err error
	if b.process, err = process.Start(filepath.Join(programs, "pulsemq"), b.log, arguments...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.process.Destroy)
	if _, port, ok := strings.Cut(b.process.Address, "]:"); ok { // 0.0.0.0 and [::] are no addresses to connect to
		b.process.Address = "127.0.0.1:" + port
	} else if _, port, ok := strings.Cut(b.process.Address, "0.0.0.0:"); ok {
		b.process.Address = "127.0.0.1:" + port
	}
	if b.client, err = pulsemq.Connect(context.Background(), b.process.Address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.client.Close() })
	b.topic = b.create(t, "scapegoat", nil)
	return b
}

// create makes a topic of one partition.
func (b *broker) create(t *testing.T, name string, configs map[string]string) pulsemq.TopicID {
	t.Helper()
	created, err := b.client.Admin().CreateTopic(context.Background(), pulsemq.TopicSpec{Name: name, Partitions: 1, Config: configs})
	if err != nil {
		t.Fatal(err)
	}
	return created.ID
}

// end is the offset that the next record of a topic gets.
func (b *broker) end(t *testing.T, topic string) int64 {
	t.Helper()
	list, err := b.client.Admin().ListOffsets(context.Background(), topic, pulsemq.OffsetLatest(), 0)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0].Offset
}

// rss is the resident memory of the process; 0 where the system does not tell.
func (b *broker) rss() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.process.PID()))
	if err != nil {
		return 0
	}
	match := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(match[1]), 10, 64)
	return n << 10
}

// watch notes the most memory that is seen until the context ends.
func (b *broker) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if n := b.rss(); n > b.rssMost.Load() {
			b.rssMost.Store(n)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// descriptors is how many the process has open.
func (b *broker) descriptors() int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.process.PID()))
	return len(all)
}

// calm waits until the process has no more descriptors than before, and some for
// segments and connections that come and go.
func (b *broker) calm(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(answerWait); b.descriptors() > before+20; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open, %d were before", b.descriptors(), before)
		}
	}
}

// metricLine is a comment or a sample.
var metricLine = regexp.MustCompile(`^(#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z0-9_]+="([^"\\\n]|\\.)*"(, ?[a-zA-Z0-9_]+="([^"\\\n]|\\.)*")*\})? [-+0-9.eEInfNa]+)$`)

// metrics are the samples of the metrics page, which must be valid.
func (b *broker) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	r, err := http.Get("http://" + b.process.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	samples := map[string]float64{}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if !metricLine.MatchString(lines.Text()) {
			t.Errorf("metrics page: %q", lines.Text())
		}
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			samples[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return samples
}

// check looks whether the process came through a case.
func (b *broker) check(t *testing.T) {
	t.Helper()
	log, err := os.ReadFile(b.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.process.Alive(); err != nil {
		t.Fatalf("%v\n%s", err, log[max(0, len(log)-4000):])
	}
	if n := b.rssMost.Load(); n > rssMax {
		t.Errorf("%d MiB were resident, the limit is %d MiB", n>>20, memoryLimit>>20)
	}
	for name, value := range b.metrics(t) {
		if strings.HasPrefix(name, "pulsemq_internal_errors_total") && value != 0 {
			t.Errorf("metrics page: %s %v", name, value)
		}
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	for _, line := range lines[1:] { // the first one is of the tool
		if !json.Valid(line) {
			t.Errorf("log line %.200q", line)
		}
	}
	if len(lines) > logLinesMax {
		t.Errorf("the log has %d lines", len(lines))
	}
}

// topics are the names of all topics.
func (b *broker) topics(t *testing.T) (names []string) {
	t.Helper()
	all, err := b.client.Admin().ListTopics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range all {
		names = append(names, topic.Name)
	}
	slices.Sort(names)
	return names
}
