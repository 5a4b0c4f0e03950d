package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/load"
	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/core"
)

const (
	// restartActiveBytes is what the active segment of each large partition holds: more than the 64 MiB that the floor
	// speaks of. As many partitions are large as there is data for; the rest of them share what is left.
	restartActiveBytes = 72 << 20
	restartLargeShare  = 0.9

	// restartAnswerMax bounds the wait for every partition.
	restartAnswerMax = 10 * time.Minute
)

// restartTopic is one of the two topics that a start finds.
type restartTopic struct {
	name       string
	partitions int
	bytes      int64
	batch      int // records
}

// restartTopics divides partitions and data.
func restartTopics(partitions int, bytes int64) []restartTopic {
	heavy := int64(float64(bytes) * restartLargeShare)
	large := min(max(int(heavy/restartActiveBytes), 1), partitions)
	topics := []restartTopic{{name: "pulsebench-restart-large", partitions: large, bytes: heavy, batch: 1000}}
	if small := partitions - large; small > 0 {
		topics = append(topics, restartTopic{name: "pulsebench-restart-small", partitions: small, bytes: bytes - heavy, batch: 100})
	}
	return topics
}

// arguments are those of a produce into the topic.
func (r *restartTopic) arguments(batchRecords int, records int64, more ...string) []string {
	return append([]string{"produce", "--topic=" + r.name, fmt.Sprintf("--partitions=%d", r.partitions), "--durability=sync", "--record-size=256",
		fmt.Sprintf("--batch-records=%d", batchRecords), "--records=" + number(records)}, more...)
}

// measureRestart kills a broker that has a lot of data and a journal full of frames that are in no segment yet, and
// measures how long the next one takes until every partition answers PRODUCE and FETCH. What the killed one had
// acknowledged last is read back then.
func measureRestart(ctx context.Context, t *table, row *report.Row) error {
	topics := restartTopics(t.restartPartitions, t.restartBytes)
	row.Workload = fmt.Sprintf("%d partitions, %v, %d of them with active segments of 72 MiB, the journal full; kill -9, start until every partition answers produce and fetch",
		t.restartPartitions, core.Size(t.restartBytes), topics[0].partitions)
	broker, err := t.broker()
	if err != nil {
		return err
	}
	defer broker.Destroy()
	for _, topic := range topics {
		if _, err := t.measure(ctx, side{server: broker, args: topic.arguments(topic.batch, topic.bytes/256), keep: true}); err != nil {
			return fmt.Errorf("fill the log: %w", err)
		}
		t.say("%s: %s is filled", row.Name, topic.name)
	}
	row.Commands = append(row.Commands, again([]string{"table", "--rows=restart"}))
	var ready, whole []float64
	for i := range t.runs {
		var runs []*run
		for _, topic := range topics {
			// Small requests stay in the journal, and the kill comes right behind them.
			r, err := t.sendBlind(ctx, broker, topic.arguments(1, t.restartJournal/int64(len(topics)), "--connections=16", "--in-flight=64"))
			if err != nil {
				return fmt.Errorf("fill the journal: %w", err)
			}
			runs = append(runs, r)
		}
		if err := broker.Kill(); err != nil {
			return err
		}
		start := time.Now()
		if err := broker.Start(); err != nil {
			return err
		}
		ready = append(ready, time.Since(start).Seconds())
		for _, topic := range topics {
			if err := probeAll(ctx, broker, topic.name); err != nil {
				return err
			}
		}
		whole = append(whole, time.Since(start).Seconds())
		t.progress(row, i, "ready after %.2f s, every partition answers after %.2f s", ready[i], whole[i])
		for _, r := range runs {
			if err := r.verifyAt(ctx, broker.Address); err != nil {
				return fmt.Errorf("after the restart: %w", err)
			}
		}
	}
	row.Add(figureAnswers, report.UnitSeconds, whole, floorOf("restart", figureAnswers))
	row.Add("until the log says ready", report.UnitSeconds, ready, nil)
	return broker.Stop()
}

// sendBlind produces, and leaves reading back for later.
func (b *bench) sendBlind(ctx context.Context, server *host.Server, args []string) (*run, error) {
	w, err := b.workload(append(args, "--brokers", server.Address))
	if err != nil {
		return nil, err
	}
	r, err := w.open(ctx, b.session)
	if err != nil {
		return nil, err
	}
	_, _, err = r.send(ctx)
	return r, err
}

// verifyAt reads back what a run has produced, from a broker that has another address by now.
func (r *run) verifyAt(ctx context.Context, address string) (err error) {
	if r.topic, err = load.OpenTopic(ctx, address, core.Version, r.topicSpec()); err != nil {
		return err
	}
	if _, _, err := r.readBack(ctx); err != nil {
		return err
	}
	if verdict := r.ledger.Verdict(); !verdict.Clean() {
		return fmt.Errorf("the log does not hold what was acknowledged: %v", verdict)
	}
	return nil
}

// probeAll returns once every partition of a topic has stored a record and shown it.
func probeAll(ctx context.Context, server *host.Server, topic string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, restartAnswerMax, errors.New("not every partition answers"))
	defer cancel()
	return load.Probe(ctx, server.Address, core.Version, topic)
}
