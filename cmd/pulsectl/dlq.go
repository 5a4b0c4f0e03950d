package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func newDLQ(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters, send them back, delete them",
		Long: `A dead-letter topic takes the records that a queue group could not process. Topics name
theirs: pulsectl topic alter orders --config dead.letter.topic=orders.dead. A dead letter
is the record with headers that say where it was and why it died.`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error { return usagef("dlq: name a command, such as dlq list") },
	}
	cmd.AddCommand(newDLQList(s), newDLQPeek(s), newDLQReplay(s), newDLQPurge(s))
	return cmd
}

// deadLetterTopic is a dead-letter topic in JSON output of list.
type deadLetterTopic struct {
	Topic   string     `json:"topic"`
	Sources []string   `json:"sources"`
	Records int64      `json:"records"` // offsets from the log's start to its end
	Oldest  *time.Time `json:"oldest"`  // when the first of them was buried; null when there is none
}

func newDLQList(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the dead-letter topics, with who names them and what they hold",
		Long: `Lists every topic that another names as its dead-letter topic: who names it, how many
records it holds, and when the oldest of them was buried. A table shows the first names
only, -o json all.`,
		Example: "  pulsectl dlq list\n  pulsectl dlq list -o json",
		Args:    noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				all, err := deadLetterTopics(ctx, a)
				if err != nil {
					return err
				}
				if err := s.oldestLetters(ctx, all); err != nil {
					return err
				}
				return s.printDeadLetterTopics(all)
			})
		},
	}
}

// sourcesShown is how many of the topics that name a dead-letter topic a table shows.
const sourcesShown = 3

func (s *session) printDeadLetterTopics(all []*describedLetters) error {
	var lines []deadLetterTopic
	var rows [][]string
	for _, d := range all {
		lines = append(lines, d.deadLetterTopic)
		oldest := "-"
		if d.Oldest != nil {
			oldest = d.Oldest.UTC().Format(time.RFC3339)
		}
		sources := strings.Join(d.Sources[:min(len(d.Sources), sourcesShown)], ",")
		if more := len(d.Sources) - sourcesShown; more > 0 {
			sources += fmt.Sprintf(" and %d more", more)
		}
		rows = append(rows, []string{d.Topic, sources, strconv.FormatInt(d.Records, 10), oldest})
	}
	if s.output == outputJSON {
		return printJSON(s, lines...)
	}
	return s.table([]string{"TOPIC", "NAMED BY", "RECORDS", "OLDEST"}, rows)
}

// describedLetters is a dead-letter topic with its partitions.
type describedLetters struct {
	deadLetterTopic
	partitions []pulsemq.PartitionDescription
}

// describersMax bounds the topics that are described at a time.
const describersMax = 16

// deadLetterTopics are the topics that others name, by name.
func deadLetterTopics(ctx context.Context, a *pulsemq.Admin) ([]*describedLetters, error) {
	var mu sync.Mutex
	var failed error
	found := map[string]*describedLetters{}
	descriptions := map[string][]pulsemq.PartitionDescription{}
	var work sync.WaitGroup
	room := make(chan struct{}, describersMax)
	for topic, err := range a.Topics(ctx) {
		if err != nil {
			failed = err
			break
		}
		room <- struct{}{}
		work.Go(func() {
			defer func() { <-room }()
			d, err := a.DescribeTopic(ctx, topic.Name)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, pulsemq.ErrUnknownTopic) {
				return // it was deleted in this moment
			}
			if err != nil {
				failed = errors.Join(failed, err)
				return
			}
			descriptions[topic.Name] = d.Partitions
			if name := settingOf(&d, "dead.letter.topic"); name != "" {
				if found[name] == nil {
					found[name] = &describedLetters{deadLetterTopic: deadLetterTopic{Topic: name}}
				}
				found[name].Sources = append(found[name].Sources, topic.Name)
			}
		})
	}
	work.Wait()
	if failed != nil {
		return nil, failed
	}
	var all []*describedLetters
	for name, d := range found {
		slices.Sort(d.Sources)
		d.partitions = descriptions[name]
		for _, p := range d.partitions {
			if p.Err != nil {
				return nil, fmt.Errorf("topic %s partition %d: %w", name, p.Number, p.Err)
			}
			d.Records += p.HighWatermark - p.LogStartOffset
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *describedLetters) int { return strings.Compare(a.Topic, b.Topic) })
	return all, nil
}

func settingOf(d *pulsemq.TopicDescription, key string) string {
	for _, c := range d.Config {
		if c.Key == key {
			return c.Value
		}
	}
	return ""
}

// oldestLetters reads the first record of each partition that has one.
func (s *session) oldestLetters(ctx context.Context, all []*describedLetters) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, d := range all {
		for _, p := range d.partitions {
			if p.HighWatermark == p.LogStartOffset {
				continue
			}
			at, err := recordTime(ctx, client, d.Topic, p.Number, p.LogStartOffset)
			if errors.Is(err, pulsemq.ErrEndOfLog) {
				continue // they were deleted in this moment
			}
			if err != nil {
				return fmt.Errorf("topic %s partition %d: %w", d.Topic, p.Number, err)
			}
			if d.Oldest == nil || at.Before(*d.Oldest) {
				d.Oldest = &at
			}
		}
	}
	return nil
}

// mustBeDeadLetters refuses a topic that no other names: its records are somebody's data.
func mustBeDeadLetters(ctx context.Context, a *pulsemq.Admin, name string) error {
	all, err := deadLetterTopics(ctx, a)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(d *describedLetters) bool { return d.Topic == name }) {
		return nil
	}
	return fmt.Errorf("topic %s is no dead-letter topic: no topic has it as dead.letter.topic; pulsectl dlq list shows which are, and pulsectl topic trim deletes records of any topic", name)
}

// deadLetterNames completes the name of a dead-letter topic.
func (s *session) deadLetterNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	err := s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
		all, err := deadLetterTopics(ctx, a)
		for _, d := range all {
			names = append(names, d.Topic)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
