// Package abuse does to a broker what hostile and broken clients do, over real sockets, and looks whether it lives, keeps
// its memory, and serves the others meanwhile.
package abuse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/tools/process"
)

const (
	memoryLimit = 256 << 20
	// rssMax is the limit with the program itself and what the collector has not given back yet.
	rssMax = memoryLimit + 96<<20

	// othersMax is how long another client's message may take at the worst. It is far above what is seen, because the
	// machine has other work; a client that is shut out waits for its timeout.
	othersMax = 5 * time.Second

	idleConnections = 2000
	answerWait      = 20 * time.Second
)

// bench is a broker under abuse and a client that has nothing to do with it.
type bench struct {
	*testing.T
	broker *process.Process
	log    string
	data   string
	client *pulsemq.Client
	topic  pulsemq.TopicID
}

func newBench(t *testing.T) *bench {
	if testing.Short() {
		t.Skip("it starts a broker")
	}
	b := &bench{T: t, log: filepath.Join(t.TempDir(), "log"), data: filepath.Join(t.TempDir(), "in", "data")}
	program := filepath.Join(t.TempDir(), "pulsemq")
	build := exec.Command("go", "build", "-o", program, "./cmd/pulsemq")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var err error
	b.broker, err = process.Start(program, b.log, "--data-dir", b.data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--set", "memory.limit="+strconv.Itoa(memoryLimit>>20)+"MiB", "--set", "network.handshake-timeout=1s", "--set", "storage.min-free=16MiB",
		"--set", "network.slow-reader-timeout=1s", "--set", "broker.pin-threads=false", "--set", "storage.journal-size=64MiB", "--set", "storage.journal-file-size=8MiB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.broker.Destroy)
	if b.client, err = pulsemq.Connect(context.Background(), b.broker.Address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.client.Close() })
	created, err := b.client.Admin().CreateTopic(context.Background(), pulsemq.TopicSpec{Name: "victim", Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	b.topic = created.ID
	return b
}

// dial is a connection that has said HELLO. While the windows of others are still being taken back, it tries again.
func (b *bench) dial() net.Conn {
	b.Helper()
	for deadline := time.Now().Add(answerWait); ; time.Sleep(20 * time.Millisecond) {
		c := b.raw()
		if _, err := c.Write(proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: 0x504D5131, ClientName: "abuse"})); err != nil {
			b.Fatal(err)
		}
		h, p := b.answer(c)
		if h.Command == proto.CommandHello {
			return c
		}
		c.Close()
		var refusal proto.Error
		refusal.Decode(p)
		if refusal.Code != proto.CodeTooManyConnections || time.Now().After(deadline) {
			b.Fatalf("HELLO was answered with %v, %v", h.Command, &refusal)
		}
	}
}

func (b *bench) raw() net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", b.broker.Address)
	if err != nil {
		b.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(answerWait))
	b.Cleanup(func() { c.Close() })
	return c
}

// answer is the next frame that is no request of the broker.
func (b *bench) answer(c net.Conn) (proto.FrameHeader, []byte) {
	b.Helper()
	h, p, err := readFrame(c)
	if err != nil {
		b.Fatalf("no answer: %v", err)
	}
	return h, p
}

func readFrame(c net.Conn) (proto.FrameHeader, []byte, error) {
	for {
		head := make([]byte, proto.FrameHeaderBytes)
		if _, err := io.ReadFull(c, head); err != nil {
			return proto.FrameHeader{}, nil, err
		}
		h, _, err := proto.DecodeFrameHeader(head, 1<<30)
		if err != nil {
			return h, nil, err
		}
		payload := make([]byte, h.PayloadBytes())
		if _, err := io.ReadFull(c, payload); err != nil {
			return h, nil, err
		}
		if h.Answer || h.RequestID&proto.ServerIDBit == 0 {
			return h, payload, nil
		}
	}
}

// ping checks that a connection is served.
func (b *bench) ping(c net.Conn) error {
	if _, err := c.Write(proto.AppendFrame(nil, 1<<40, &proto.PingRequest{Opaque: 7})); err != nil {
		return err
	}
	for {
		h, _, err := readFrame(c)
		if err != nil || h.RequestID == 1<<40 {
			return err
		}
	}
}

// requests are valid frames of every command, from the golden vectors.
func requests(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../proto/testdata/vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no vectors", err)
	}
	found := map[string][]byte{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var vectors struct {
			Frames []struct{ Name, Message, Frame string }
		}
		if json.Unmarshal(text, &vectors) != nil {
			continue
		}
		for _, f := range vectors.Frames {
			if frame, err := hex.DecodeString(f.Frame); err == nil && strings.HasSuffix(f.Message, "_request") && f.Message != "hello_request" {
				found[f.Name] = frame
			}
		}
	}
	return found
}

// reset ends a connection as a crash of the client's machine does.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

func (b *bench) garbage() {
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		c := b.raw()
		junk := make([]byte, 1+random.IntN(5000))
		for j := range junk {
			junk[j] = byte(random.Uint32())
		}
		if i%2 == 0 { // a length that is allowed, so that the rest is looked at
			binary.BigEndian.PutUint32(junk, uint32(len(junk)))
		}
		c.Write(junk)
		reset(c)
	}
	for _, length := range []uint32{0, 1, 9, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		for _, greeted := range []bool{false, true} {
			c := b.raw()
			if greeted {
				c = b.dial()
			}
			c.Write(append(binary.BigEndian.AppendUint32(nil, length), make([]byte, 10)...))
			if h, _ := b.answer(c); h.Command != proto.CommandError {
				b.Errorf("length %d: answered with %v", length, h.Command)
			}
			if _, _, err := readFrame(c); !errors.Is(err, io.EOF) {
				b.Errorf("length %d: the connection goes on: %v", length, err)
			}
			c.Close()
		}
	}
}

func (b *bench) truncated(frames map[string][]byte) {
	for name, frame := range frames {
		c := b.raw()
		c.Write(frame)
		if h, _ := b.answer(c); h.Command != proto.CommandError {
			b.Errorf("%s before HELLO: answered with %v", name, h.Command)
		}
		c.Close()
		c = b.dial()
		step := max(1, (len(frame)-proto.FrameHeaderBytes)/100) // every byte of short ones
		for n := proto.FrameHeaderBytes; n < len(frame); n += step {
			cut := bytes.Clone(frame[:n])
			binary.BigEndian.PutUint32(cut, uint32(n-4))
			binary.BigEndian.PutUint64(cut[6:], uint64(n)+10)
			c.Write(cut)
		}
		if err := b.ping(c); err != nil {
			b.Errorf("%s, truncated at every byte: the connection ended: %v", name, err)
		}
		c.Close()
		for n := 1; n < len(frame); n += step { // cut off for real
			c := b.dial()
			c.Write(frame[:n])
			reset(c)
			if n > 200 {
				n += 100
			}
		}
	}
}

// produce is a PRODUCE frame of one message.
func (b *bench) produce(value int) []byte {
	var builder proto.BatchBuilder
	builder.Reset(proto.CodecNone)
	if err := builder.Append(&proto.Record{Timestamp: time.Now().UnixMilli(), Value: make([]byte, value)}); err != nil {
		b.Fatal(err)
	}
	batch, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	m := &proto.ProduceRequest{TopicID: b.topic, LeaderEpoch: -1, Acks: proto.AcksDurable, Batch: batch}
	return proto.AppendFrame(nil, 50, m)
}

// drip sends large requests a byte at a time, over as many connections as would use up all memory for requests.
func (b *bench) drip(until <-chan struct{}) {
	frame := b.produce(1 << 20)[:1<<20]
	var all []net.Conn
	for range 64 {
		c := b.dial()
		c.Write(frame[:300])
		all = append(all, c)
	}
	for at := 300; ; at++ {
		select {
		case <-until:
			for _, c := range all {
				reset(c)
			}
			return
		case <-time.After(200 * time.Millisecond):
		}
		for _, c := range all {
			c.Write(frame[at : at+1])
		}
	}
}

// gorge asks for everything, many times over, and reads nothing.
func (b *bench) gorge() []net.Conn {
	var all []net.Conn
	for range 20 {
		c := b.dial()
		var frames []byte
		for id := range uint64(200) {
			frames = proto.AppendFrame(frames, id+10, &proto.FetchRequest{TopicID: b.topic, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1<<31 - 1, MaxRecords: 1<<31 - 1})
		}
		frames = proto.AppendFrame(frames, 5, &proto.SubscribeRequest{CreditBytes: 1 << 60,
			Add: []proto.SubscribePartition{{TopicID: b.topic, LeaderEpoch: -1, LastEpoch: -1}}})
		c.Write(frames)
		all = append(all, c)
	}
	return all
}

func (b *bench) names() {
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc/passwd", "a\x00b", "a\nb", "a\"b", "a'b", "\u202Etxt", "a b", "{x=\"1\"}", strings.Repeat("n", 1<<20), "é"} {
		c := b.dial()
		c.Write(proto.AppendFrame(nil, 9, &proto.CreateTopicRequest{Name: name, Partitions: 1}))
		h, p := b.answer(c)
		var refusal proto.Error
		if h.Command != proto.CommandError || refusal.Decode(p) != nil || refusal.Code != proto.CodeInvalidName {
			b.Errorf("name %.20q: answered with %v, %v", name, h.Command, refusal.Code)
		}
		if len(p) > 2000 {
			b.Errorf("name %.20q: refused in %d bytes", name, len(p))
		}
		c.Write(proto.AppendFrame(nil, 10, &proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{name}}))
		b.answer(c)
		c.Close()
	}
}

// idle opens connections that never say anything, and waits until the broker has closed them all.
func (b *bench) idle() {
	all := make([]net.Conn, 0, idleConnections)
	for range idleConnections {
		c, err := net.Dial("tcp", b.broker.Address)
		if err != nil {
			b.Fatalf("after %d connections: %v", len(all), err)
		}
		all = append(all, c)
	}
	deadline := time.Now().Add(answerWait)
	for _, c := range all {
		c.SetReadDeadline(deadline)
		if _, err := io.Copy(io.Discard, c); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			b.Fatal("a connection without HELLO is still open")
		}
		c.Close()
	}
}

func (b *bench) rss() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.broker.PID()))
	if err != nil {
		b.Skip("this system does not tell the memory of a process: ", err)
	}
	match := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	n, _ := strconv.Atoi(string(match[1]))
	return n << 10
}

func (b *bench) descriptors() int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.broker.PID()))
	return len(all)
}

// metricLine is a comment or a sample.
var metricLine = regexp.MustCompile(`^(#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z0-9_]+="([^"\\\n]|\\.)*"(, ?[a-zA-Z0-9_]+="([^"\\\n]|\\.)*")*\})? [-+0-9.eEInfNa]+)$`)

// checkPages checks that the metrics page can be parsed and that the log is one JSON object per line.
func (b *bench) checkPages() {
	r, err := http.Get("http://" + b.broker.Admin + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if !metricLine.MatchString(lines.Text()) {
			b.Errorf("metrics page: %q", lines.Text())
		}
		if strings.HasPrefix(lines.Text(), "pulsemq_internal_errors_total") && !strings.HasSuffix(lines.Text(), " 0") {
			b.Errorf("metrics page: %s", lines.Text())
		}
	}
	log, err := os.ReadFile(b.log)
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	for _, line := range lines[1:] { // the first one is of the tool
		if !json.Valid(line) {
			b.Errorf("log line %.200q", line)
		}
	}
	if len(lines) > 3000 {
		b.Errorf("the log has %d lines", len(lines))
	}
}

// others sends a message now and then, and returns the longest that one took.
func (b *bench) others(ctx context.Context) (worst time.Duration, count int, err error) {
	p, err := b.client.NewProducer(pulsemq.ProducerDeliveryTimeout(2 * othersMax))
	if err != nil {
		return 0, 0, err
	}
	defer p.Close(context.Background())
	for ctx.Err() == nil {
		began := time.Now()
		if _, err := p.Send(context.Background(), &pulsemq.Message{Topic: "victim", Partition: pulsemq.PartitionNumber(1), Value: []byte("x")}); err != nil {
			return worst, count, err
		}
		worst, count = max(worst, time.Since(began)), count+1
		time.Sleep(5 * time.Millisecond)
	}
	return worst, count, nil
}

func TestBrokerUnderAbuse(t *testing.T) {
	b := newBench(t)
	filler := b.produce(200_000) // something to read for those who ask for everything
	c := b.dial()
	for range 100 {
		c.Write(filler)
		b.answer(c)
	}
	c.Close()
	frames := requests(t)
	before := b.descriptors()
	steps := []struct {
		name string
		run  func()
	}{
		{"garbage", b.garbage},
		{"truncated frames", func() { b.truncated(frames) }},
		{"names", b.names},
		{"idle connections", b.idle},
		{"drip", func() {
			until := make(chan struct{})
			time.AfterFunc(3*time.Second, func() { close(until) })
			b.drip(until)
		}},
		{"gorge", func() {
			greedy := b.gorge()
			deadline := time.Now().Add(3 * time.Second)
			for time.Now().Before(deadline) {
				if rss := b.rss(); rss > rssMax {
					b.Fatalf("%d MiB resident while others read nothing", rss>>20)
				}
				time.Sleep(50 * time.Millisecond)
			}
			for _, c := range greedy {
				c.Close()
			}
		}},
	}
	for _, step := range steps {
		ctx, stop := context.WithCancel(context.Background())
		var waiting sync.WaitGroup
		waiting.Go(func() {
			worst, count, err := b.others(ctx)
			if err != nil || worst > othersMax {
				t.Errorf("%s: another client's message took %v: %v", step.name, worst, err)
			}
			t.Logf("%s: %d messages of another client, the slowest took %v", step.name, count, worst)
		})
		step.run()
		stop()
		waiting.Wait()
		if err := b.broker.Alive(); err != nil {
			log, _ := os.ReadFile(b.log)
			t.Fatalf("%s: %v\n%s", step.name, err, log[max(0, len(log)-4000):])
		}
		rss := b.rss()
		t.Logf("%s: %d MiB resident, %d descriptors", step.name, rss>>20, b.descriptors())
		if rss > rssMax {
			t.Errorf("%s: %d MiB resident", step.name, rss>>20)
		}
		b.checkPages()
	}
	for deadline := time.Now().Add(answerWait); b.descriptors() > before+20; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open, %d were before", b.descriptors(), before)
		}
	}
	outside, err := os.ReadDir(filepath.Dir(b.data))
	if err != nil || len(outside) != 1 {
		t.Errorf("beside the data folder lies %v, %v", outside, err)
	}
	if err := b.broker.Terminate(); err != nil {
		t.Error(err)
	}
}
