package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// groupLag is a partition in JSON output of lag. LagSeconds is the age of the oldest record
// that is not committed; null when it could not be read.
type groupLag struct {
	Group      string   `json:"group"`
	Topic      string   `json:"topic"`
	Partition  uint32   `json:"partition"`
	Committed  int64    `json:"committed"` // -1: nothing
	End        int64    `json:"end"`
	Lag        int64    `json:"lag"`
	LagSeconds *float64 `json:"lag_seconds"`
	Member     string   `json:"member"`
}

func newGroupLag(s *session) *cobra.Command {
	var watch bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "lag [GROUP]",
		Short: "Show how far groups are behind, by partition",
		Long: `Shows for each partition that the group has committed to or owns: the committed offset (-1
for none), the end of the log, the records between them, and how old the oldest of them is
by its timestamp. Without GROUP it shows all groups. --watch shows it again every two
seconds, or as --every says, until it is interrupted; a broker that cannot be asked in
between is told, and asked again.`,
		Example: "  pulsectl group lag billing\n  pulsectl group lag -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s wants at most one GROUP, %d are given: %q", cmd.CommandPath(), len(args), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if every <= 0 {
				return usagef("--every %v: it is more than 0", every)
			}
			for shown := false; ; {
				err := s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error { return s.printLag(ctx, a, args) })
				switch {
				case watch && cmd.Context().Err() != nil:
					return nil
				case err == nil:
					shown = true
				case shown && (pulsemq.Retriable(err) || errors.Is(err, context.DeadlineExceeded)):
					fmt.Fprintf(s.err, "pulsectl: %s\n", s.tell(err))
				default:
					return err
				}
				if !watch {
					return nil
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(every):
				}
			}
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again and again")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "with --watch, how long to wait between")
	return cmd
}

func (s *session) printLag(ctx context.Context, a *pulsemq.Admin, named []string) error {
	groups := named
	if len(named) == 0 {
		for g, err := range a.ListGroups(ctx) {
			if err != nil {
				return err
			}
			groups = append(groups, g.Group)
		}
		slices.Sort(groups)
	}
	var all []groupLag
	for _, group := range groups {
		lags, err := lagOf(ctx, a, group)
		if errors.Is(err, pulsemq.ErrUnknownGroup) && len(named) == 0 {
			continue // it was deleted in this moment
		}
		if err != nil {
			return err
		}
		all = append(all, lags...)
	}
	s.lagSeconds(ctx, all)
	if s.output == outputJSON {
		return printJSON(s, all...)
	}
	var rows [][]string
	for _, l := range all {
		age := "-"
		if l.LagSeconds != nil {
			age = strconv.FormatFloat(*l.LagSeconds, 'f', 1, 64)
		}
		rows = append(rows, []string{l.Group, l.Topic, strconv.FormatUint(uint64(l.Partition), 10), strconv.FormatInt(l.Committed, 10),
			strconv.FormatInt(l.End, 10), strconv.FormatInt(l.Lag, 10), age, l.Member})
	}
	return s.table([]string{"GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG SECONDS", "MEMBER"}, rows)
}

// lagOf gathers a group's offsets and who reads each partition.
func lagOf(ctx context.Context, a *pulsemq.Admin, group string) ([]groupLag, error) {
	d, err := a.DescribeGroup(ctx, group)
	if err != nil {
		return nil, err
	}
	type place struct {
		topic  pulsemq.TopicID
		number uint32
	}
	readers := map[place]string{}
	others := map[place]int{} // of a queue group
	for _, m := range d.Members {
		for _, p := range m.Partitions {
			at := place{p.TopicID, p.Partition}
			if readers[at] == "" {
				readers[at] = m.ID
			} else {
				others[at]++
			}
		}
	}
	for at, n := range others {
		readers[at] += fmt.Sprintf(" and %s more", counted(n, "member"))
	}
	offsets, err := a.GroupOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	var lags []groupLag
	for _, o := range offsets {
		if o.Topic == "" || o.Err != nil {
			continue // the topic was deleted in this moment
		}
		lags = append(lags, groupLag{Group: group, Topic: o.Topic, Partition: o.Partition, Committed: o.Committed, End: o.HighWatermark, Lag: o.Lag(),
			Member: readers[place{o.TopicID, o.Partition}]})
	}
	slices.SortFunc(lags, func(a, b groupLag) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return lags, nil
}

// lagReadersMax bounds the partitions whose oldest record is read at a time.
const lagReadersMax = 16

// lagSeconds reads the oldest record that is not committed of each partition that has one.
func (s *session) lagSeconds(ctx context.Context, all []groupLag) {
	client, err := s.connect(ctx)
	if err != nil {
		return
	}
	defer client.Close()
	now := time.Now()
	room := make(chan struct{}, lagReadersMax)
	var readers sync.WaitGroup
	for i := range all {
		l := &all[i]
		if l.Lag == 0 {
			l.LagSeconds = new(float64)
			continue
		}
		room <- struct{}{}
		readers.Go(func() {
			defer func() { <-room }()
			if at, err := recordTime(ctx, client, l.Topic, l.Partition, l.Committed); err == nil {
				age := max(0, now.Sub(at).Seconds())
				l.LagSeconds = &age
			}
		})
	}
	readers.Wait()
}

// recordTime is the time of the first record at or behind an offset; ErrEndOfLog when there is none any more.
func recordTime(ctx context.Context, client *pulsemq.Client, topic string, partition uint32, offset int64) (time.Time, error) {
	consumer, err := client.NewConsumer(pulsemq.ConsumerFetchRecords(1), pulsemq.ConsumerFetchBytes(1), pulsemq.ConsumerSkipCorrupt(true),
		pulsemq.ConsumerReset(pulsemq.ConsumerResetEarliest), pulsemq.ConsumerStopAtEnd())
	if err != nil {
		return time.Time{}, err
	}
	defer consumer.Close()
	if err := consumer.AssignPartition(ctx, topic, partition, pulsemq.StartOffset(max(0, offset))); err != nil {
		return time.Time{}, err
	}
	for {
		records, err := consumer.Poll(ctx)
		if about := (*pulsemq.PartitionError)(nil); errors.As(err, &about) && !about.Stopped {
			continue // below the log start, or damaged: the next that there is
		}
		if err != nil {
			return time.Time{}, err
		}
		return records[0].Timestamp, nil
	}
}
