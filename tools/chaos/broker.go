package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pulsemq/pulsemq/tools/process"
)

// brokerReadyWait bounds a start. The machine may be busy with other things.
const brokerReadyWait = 2 * time.Minute

// broker is the broker of a scenario through all its lives: one folder, one port.
type broker struct {
	*process.Process // of its present life

	program string
	data    string
	log     string
	listen  string
	limits  []string // for the launcher; none starts it directly
	sets    []string // key=value
}

// newBroker prepares a broker with small files, so that everything that happens to files happens soon. Settings given
// here come after those and win.
func newBroker(s *stage, sets ...string) *broker {
	return &broker{
		program: s.program, data: filepath.Join(s.folder, "data"), log: filepath.Join(s.folder, "broker.log"), listen: "127.0.0.1:0",
		sets: append([]string{
			"storage.journal-size=16MiB", "storage.journal-file-size=4MiB", "storage.flush-bytes=64KiB", "storage.min-free=1MiB",
			"storage.retention-interval=200ms", "memory.limit=256MiB", "broker.pin-threads=false", "broker.shards=1", "broker.reactors=1",
		}, sets...),
	}
}

// launch starts the broker and returns when its operators' port is open.
func (b *broker) launch() error {
	program, arguments := b.program, []string{"--data-dir", b.data, "--listen", b.listen, "--admin", "127.0.0.1:0"}
	for _, set := range b.sets {
		arguments = append(arguments, "--set", set)
	}
	if len(b.limits) > 0 {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		front := append([]string{launchWord}, b.limits...)
		program, arguments = self, append(append(front, "--", b.program), arguments...)
	}
	launched, err := process.Launch(program, b.log, arguments...)
	if err != nil {
		return err
	}
	b.Process = launched
	return b.Started(brokerReadyWait)
}

// start starts the broker and returns when it serves.
func (b *broker) start() error {
	if err := b.launch(); err != nil {
		return err
	}
	return b.serves()
}

// serves waits until a launched broker serves.
func (b *broker) serves() error {
	if err := b.Ready(brokerReadyWait); err != nil {
		return err
	}
	b.listen = b.Address // the next life has the same
	return nil
}

// restart starts it again after it was ended.
func (b *broker) restart() error { return b.start() }

// end makes sure that nothing of it is left.
func (b *broker) end() {
	if b.Process != nil {
		b.Destroy()
	}
}

// page gets a page of the operators' port.
func (b *broker) page(path string) (status int, text string, err error) {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + b.Admin + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// metric is the sum of all series of a name on the metrics page.
func (b *broker) metric(name string) (float64, error) {
	_, text, err := b.page("/metrics")
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		fields := strings.Fields(rest)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+value, true
	}
	if !found {
		return 0, fmt.Errorf("the metrics page has no %s", name)
	}
	return sum, nil
}

// logged says whether the log has a line with a text, and how many.
func (b *broker) logged(text string) (int, error) {
	log, err := os.ReadFile(b.log)
	return strings.Count(string(log), text), err
}

// sound fails when the broker met something that is a bug wherever it is met.
func (b *broker) sound() error {
	if err := b.Alive(); err != nil {
		return err
	}
	n, err := b.metric("pulsemq_internal_errors_total")
	if err == nil && n > 0 {
		err = fmt.Errorf("%v errors without a code", n)
	}
	return err
}

// eventually waits until a condition holds; it fails with what the condition says last.
func eventually(ctx context.Context, limit time.Duration, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not within %v", limit), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
