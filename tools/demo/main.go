// Demo shows on this machine what PulseMQ does: it starts a broker of its own on free ports with a temporary data
// folder, sends it a million messages, reads all of them back and verifies each, says how fast that was, and leaves
// nothing behind. It is what make demo runs after it has built the programs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	messagesDefault = 1_000_000
	messageBytes    = 256
	partitions      = 8

	// interruptWait is how long pulsebench has to end by itself when the demo is called off.
	interruptWait = 5 * time.Second
)

func main() {
	bin := flag.String("bin", "bin", "`folder` of the programs pulsemq and pulsebench")
	messages := flag.Int("messages", messagesDefault, "how many messages to move")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx, os.Stdout, *bin, *messages)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo runs everything, and cleans up whatever happens.
func demo(ctx context.Context, out io.Writer, bin string, messages int) (err error) {
	folder, err := os.MkdirTemp("", "pulsemq-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := os.RemoveAll(folder); removeErr != nil {
			err = errors.Join(err, removeErr)
		}
	}()
	b, err := startBroker(ctx, filepath.Join(bin, "pulsemq"), folder)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A broker runs on %s, with its metrics on http://%s/metrics and its data in %s.\n", b.Address, b.Admin, b.data)
	fmt.Fprintf(out, "Sending it %d messages of %d bytes; each counts once it is synced to disk. Then reading them back.\n\n", messages, messageBytes)
	moved, moveErr := move(ctx, out, bin, folder, b, messages)
	stopErr := b.Terminate()
	if err := errors.Join(moveErr, stopErr); err != nil {
		return err
	}
	moved.tell(out)
	return nil
}

// result is what the demo reads of pulsebench's JSON.
type result struct {
	RecordsPerSecond   float64 `json:"records_per_second"`
	MegabytesPerSecond float64 `json:"megabytes_per_second"`
	Records            int     `json:"records"`
	Latency            struct {
		P50   float64 `json:"p50"`
		P99   float64 `json:"p99"`
		P9999 float64 `json:"p9999"`
	} `json:"latency_ms"`
	ReadBack struct {
		Records          int     `json:"records"`
		RecordsPerSecond float64 `json:"records_per_second"`
	} `json:"read_back"`
}

// move lets pulsebench send and verify, and returns what it found.
func move(ctx context.Context, out io.Writer, bin, folder string, b *broker, messages int) (*result, error) {
	file := filepath.Join(folder, "result.json")
	bench := exec.CommandContext(ctx, filepath.Join(bin, "pulsebench"), "produce", "--brokers", b.Address, "--topic", "demo",
		"--partitions", strconv.Itoa(partitions), "--durability", "sync", "--record-size", strconv.Itoa(messageBytes),
		"--records", strconv.Itoa(messages), "--data-dir", b.data, "--json", file)
	bench.Stdout, bench.Stderr = out, os.Stderr
	bench.Cancel = func() error { return bench.Process.Signal(os.Interrupt) }
	bench.WaitDelay = interruptWait
	if err := bench.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, errors.New("called off")
		}
		return nil, fmt.Errorf("pulsebench: %w", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("what pulsebench found: %w", err)
	}
	if r.Records < messages || r.ReadBack.Records < messages {
		return nil, fmt.Errorf("%d messages were stored and %d read back of %d", r.Records, r.ReadBack.Records, messages)
	}
	return r, nil
}

// tell says what came out, and what to look at next.
func (r *result) tell(out io.Writer) {
	fmt.Fprintf(out, `
%d messages are stored, read back, and each is there once, in order, byte for byte.
  producing     %.0f messages/s, %.1f MB/s, every acknowledgement after a sync
  latency       p50 %.3f ms, p99 %.3f ms, p99.99 %.3f ms for a batch of a thousand, flat out
  reading back  %.0f messages/s
The broker was stopped and its data removed.

Look at next:
  make run                              a broker on 127.0.0.1:9090 that keeps its data in ./data
  bin/pulsectl --help                   topics, and messages in and out
  bin/pulsebench --help                 other loads: at a rate, single messages, end to end, through the Go client
  docs/ARCHITECTURE.md                  how it works
  docs/operations/durability.md         what an acknowledgement means
`, r.Records, r.RecordsPerSecond, r.MegabytesPerSecond, r.Latency.P50, r.Latency.P99, r.Latency.P9999, r.ReadBack.RecordsPerSecond)
}
