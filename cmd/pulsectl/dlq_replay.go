package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

const (
	// replayRoundMax bounds the letters that are sent before how far it came is committed, and with that
	// the records that come twice after a replay was killed.
	replayRoundMax = 500
	// replayRoundTime is the longest that letters wait for that.
	replayRoundTime = time.Second
	// replayTopicBytesMax is how much of a topic's name is in the name of its replay's group, which is bounded.
	replayTopicBytesMax = 150
)

// replayFlags are the flags of dlq replay.
type replayFlags struct {
	topic   string
	to      string
	filters []string
	rate    int
	execute bool
}

func newDLQReplay(s *session) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay TOPIC",
		Short: "Send dead letters back to where they came from",
		Long: `Shows how many letters of a dead-letter topic would go where, and sends them with --execute:
each record as it was, without the headers of its death and with its own time, to the topic
and partition that it died in, or to the topic of --to, where its key says which partition.
It ends at what was the end of the dead-letter topic when it began. The letters stay where
they are: dlq purge deletes them.

How far a replay has come is committed to a group whose name is shown, in each partition:
the same command goes on behind that, after an interrupt, a crash, or when new letters have
come, and sends nothing twice but what was under way when it was killed, at most ` + strconv.Itoa(replayRoundMax) + `
records. Another --to or --filter is another replay and begins at the first letter.
pulsectl group delete NAME lets a replay begin anew; so does a broker that has forgotten the
group, offsets.retention after the last replay. Of two replays that run at the same
time each sends everything.

` + filterHelp,
		Example: `  pulsectl dlq replay orders.dead
  pulsectl dlq replay orders.dead --execute --rate 100
  pulsectl dlq replay orders.dead --filter reason=rejected --to orders.review --execute`,
		Args:              oneArgument("TOPIC"),
		ValidArgsFunction: s.deadLetterNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.topic = args[0]
			switch {
			case f.rate < 1 && cmd.Flags().Changed("rate"):
				return usagef("--rate %d: at least 1 record a second", f.rate)
			case f.to == f.topic:
				return usagef("--to %s: that is the topic of the letters itself", f.to)
			}
			return s.replay(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "send all to this topic (default: each to the topic that it died in)")
	flags.StringArrayVar(&f.filters, "filter", nil, "only letters that have NAME=VALUE; repeatable")
	flags.IntVar(&f.rate, "rate", 0, "records a second at most (default: as fast as it goes)")
	flags.BoolVar(&f.execute, "execute", false, "do it; without, it is only shown")
	return cmd
}

// replayGroup names the group that keeps how far a replay has come. What makes the replay is in its name.
func replayGroup(topic, to string, filters []letterFilter) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q", topic, to)
	sorted := slices.Clone(filters)
	slices.SortFunc(sorted, func(a, b letterFilter) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	for _, filter := range sorted {
		fmt.Fprintf(h, " %q=%q", filter.name, filter.value)
	}
	return fmt.Sprintf("dlq-replay.%.*s.%016x", replayTopicBytesMax, topic, h.Sum64())
}

// replayed is what dlq replay says in JSON output.
type replayed struct {
	Topic    string         `json:"topic"`
	Group    string         `json:"group"`
	Before   int64          `json:"before"` // letters that the same replay had behind it
	Records  int64          `json:"records"`
	Targets  []replayTarget `json:"targets"`
	Filtered int64          `json:"filtered"` // letters that the filters leave out
	Foreign  int64          `json:"foreign"`  // records that are no dead letters
	Executed bool           `json:"executed"`
}

// replayTarget is a topic that letters go to.
type replayTarget struct {
	Topic   string `json:"topic"`
	Records int64  `json:"records"`
}

// replay is one run of dlq replay.
type replay struct {
	session  *session
	flags    *replayFlags
	filters  []letterFilter
	client   *pulsemq.Client
	producer *pulsemq.Producer // nil in a dry run
	topics   map[string]int    // all that there are, with their partitions
	done     replayed
	targets  map[string]int64

	begun     time.Time
	round     int              // letters sent since the last commit
	committed time.Time        // when that was
	positions map[uint32]int64 // to be committed
	failed    chan error       // of a record that was not stored; the first is enough
	broken    bool             // such a one is in the round, or what is stored is not known
}

func (s *session) replay(ctx context.Context, f *replayFlags) (err error) {
	filters, err := parseFilters(f.filters)
	if err != nil {
		return err
	}
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	r := &replay{session: s, flags: f, filters: filters, client: client, topics: map[string]int{}, targets: map[string]int64{},
		begun: time.Now(), committed: time.Now(), positions: map[uint32]int64{}, failed: make(chan error, 1),
		done: replayed{Topic: f.topic, Group: replayGroup(f.topic, f.to, filters), Executed: f.execute}}
	consumer, err := client.NewConsumer(pulsemq.ConsumerStopAtEnd(), pulsemq.ConsumerSkipCorrupt(true), pulsemq.ConsumerReset(pulsemq.ConsumerResetEarliest))
	if err != nil {
		return err
	}
	defer consumer.Close()
	if err := r.assign(ctx, consumer); err != nil {
		return err
	}
	if f.execute {
		if r.producer, err = client.NewProducer(); err != nil {
			return err
		}
	}
	err = r.run(ctx, consumer)
	if f.execute {
		err = r.end(ctx, err)
	}
	if printErr := r.print(); err == nil {
		err = printErr
	}
	if err != nil && f.execute {
		err = fmt.Errorf("%w; %s sent, the same command goes on from there", err, counted(r.done.Records, "record"))
	}
	return err
}

// assign begins each partition where the same replay ended.
func (r *replay) assign(ctx context.Context, consumer *pulsemq.Consumer) error {
	ctx, cancel := context.WithTimeout(ctx, r.session.timeout)
	defer cancel()
	admin := r.client.Admin()
	for topic, err := range admin.Topics(ctx) {
		if err != nil {
			return err
		}
		r.topics[topic.Name] = len(topic.Partitions)
	}
	d, err := admin.DescribeTopic(ctx, r.flags.topic)
	if err != nil {
		return err
	}
	if _, known := r.topics[r.flags.to]; !known && r.flags.to != "" {
		return fmt.Errorf("--to: there is no topic %q", r.flags.to)
	}
	before := map[uint32]int64{}
	offsets, err := admin.GroupOffsets(ctx, r.done.Group)
	if err != nil {
		return err
	}
	for _, o := range offsets {
		if o.TopicID == d.ID && o.Committed >= 0 {
			before[o.Partition] = o.Committed
		}
	}
	for _, p := range d.Partitions {
		if p.Err != nil {
			return fmt.Errorf("partition %d: %w", p.Number, p.Err)
		}
		from := min(max(before[p.Number], p.LogStartOffset), p.HighWatermark)
		r.done.Before += from - p.LogStartOffset
		if err := consumer.AssignPartition(ctx, r.flags.topic, p.Number, pulsemq.StartOffset(from)); err != nil {
			return err
		}
	}
	return nil
}

// run goes through the letters until their end.
func (r *replay) run(ctx context.Context, consumer *pulsemq.Consumer) error {
	for {
		records, err := consumer.Poll(ctx)
		if errors.Is(err, pulsemq.ErrEndOfLog) {
			return nil
		}
		if gone := (*pulsemq.PartitionError)(nil); errors.As(err, &gone) && !gone.Stopped {
			fmt.Fprintf(r.session.err, "pulsectl: %s; passed over\n", r.session.tell(err))
			continue
		}
		if err != nil {
			return err
		}
		for i := range records {
			if err := r.one(ctx, &records[i]); err != nil {
				return err
			}
		}
	}
}

// one sends a letter, or counts what would be sent.
func (r *replay) one(ctx context.Context, record *pulsemq.Record) error {
	l := letterOf(record)
	switch {
	case l.foreign != nil:
		r.done.Foreign++
	case !allHold(r.filters, &l):
		r.done.Filtered++
	default:
		if err := r.send(ctx, &l); err != nil {
			return err
		}
	}
	if !r.flags.execute {
		return nil
	}
	r.positions[record.Partition] = record.Offset + 1
	if r.round < replayRoundMax && time.Since(r.committed) < replayRoundTime {
		return nil
	}
	return r.commit(ctx)
}

func (r *replay) send(ctx context.Context, l *letter) error {
	m := pulsemq.Message{Topic: cmp.Or(r.flags.to, l.provenance.Topic), Key: l.Key, Value: l.Value, Headers: l.own(), Timestamp: time.UnixMilli(l.provenance.Timestamp)}
	partitions, known := r.topics[m.Topic]
	if !known && r.flags.execute {
		return fmt.Errorf("the letter at offset %d of partition %d came from topic %q, which does not exist: create it, send the letters elsewhere with --to, or choose others with --filter",
			l.Offset, l.Partition, m.Topic)
	}
	if r.flags.to == "" && int64(l.provenance.Partition) < int64(partitions) {
		m.Partition = pulsemq.PartitionNumber(l.provenance.Partition)
	}
	if r.flags.execute {
		if err := r.pace(ctx); err != nil {
			return err
		}
		err := r.producer.SendAsync(ctx, &m, func(_ pulsemq.Result, err error) {
			if err != nil {
				select {
				case r.failed <- err:
				default:
				}
			}
		})
		if err != nil {
			return err
		}
	}
	r.round++
	r.targets[m.Topic]++
	return nil
}

// pace waits until --rate allows another record.
func (r *replay) pace(ctx context.Context) error {
	if r.flags.rate == 0 {
		return ctx.Err()
	}
	sent := r.done.Records + int64(r.round)
	wait := time.Until(r.begun.Add(time.Duration(float64(sent) / float64(r.flags.rate) * float64(time.Second))))
	select {
	case <-time.After(wait):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commit waits until what was sent is stored, and keeps how far that is. An interruption does not end it: what is sent
// already would be sent again.
func (r *replay) commit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.session.timeout)
	defer cancel()
	if err := r.producer.Flush(ctx); err != nil {
		r.broken = true
		return err
	}
	select {
	case err := <-r.failed:
		r.broken = true
		return err
	default:
	}
	if len(r.positions) > 0 {
		if err := r.client.Admin().SeekGroup(ctx, r.done.Group, r.flags.topic, r.positions, false); err != nil {
			return fmt.Errorf("keep how far the replay has come: %w", err)
		}
	}
	r.done.Records += int64(r.round)
	r.round, r.committed = 0, time.Now()
	clear(r.positions)
	return nil
}

// end commits what is under way, also of a replay that was interrupted or met a letter that it cannot send.
func (r *replay) end(ctx context.Context, err error) error {
	if !r.broken {
		err = errors.Join(err, r.commit(ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.session.timeout)
	defer cancel()
	if closeErr := r.producer.Close(ctx); err == nil {
		err = closeErr
	}
	return err
}

func (r *replay) print() error {
	done := &r.done
	if !done.Executed {
		done.Records = int64(r.round)
	}
	done.Targets = []replayTarget{}
	for topic, records := range r.targets {
		done.Targets = append(done.Targets, replayTarget{topic, records})
	}
	slices.SortFunc(done.Targets, func(a, b replayTarget) int { return strings.Compare(a.Topic, b.Topic) })
	s := r.session
	if s.output == outputJSON {
		return printJSON(s, *done)
	}
	var rows [][]string
	for _, t := range done.Targets {
		name := cell([]byte(t.Topic))
		if _, known := r.topics[t.Topic]; !known {
			name += " (does not exist)"
		}
		rows = append(rows, []string{name, strconv.FormatInt(t.Records, 10)})
	}
	if err := s.table([]string{"TO", "RECORDS"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "group %s: %d before; %d left out by filters, %d no dead letters\n", done.Group, done.Before, done.Filtered, done.Foreign)
	if !done.Executed {
		fmt.Fprintln(s.out, "nothing was sent: --execute does it")
	}
	return nil
}
