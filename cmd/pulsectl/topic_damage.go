package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// damage is a damaged range in JSON output.
type damage struct {
	Topic      string `json:"topic"`
	Partition  uint32 `json:"partition"`
	BaseOffset int64  `json:"base_offset"`
	NextOffset int64  `json:"next_offset"` // [base, next)
	Found      string `json:"found"`
	File       string `json:"file,omitempty"`
	Problem    string `json:"problem"`
	// Unlisted is on the last range of a partition that has more than the broker lists.
	Unlisted uint32 `json:"unlisted,omitempty"`
}

func newTopicDamage(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "damage [NAME...]",
		Short: "List the records that the disk has lost",
		Long: `Lists the damaged ranges of the topics, or of all topics, that the broker knows of: at its
start, by a consumer's read, or by reading everything again in the background. Reads of
such a range answer CORRUPT_RECORD; what lies before and after it is served. scrub start
has topics read again now.`,
		Example: `  pulsectl topic damage
  pulsectl topic damage orders -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var found []damage
			if err := s.eachTopic(cmd.Context(), args, func(d *pulsemq.TopicDescription) error {
				found = append(found, damagesOf(d)...)
				return nil
			}); err != nil {
				return err
			}
			return s.printDamages(found)
		},
	}
}

func damagesOf(d *pulsemq.TopicDescription) (found []damage) {
	for _, p := range d.Partitions {
		if p.Storage == nil {
			continue
		}
		for i, one := range p.Storage.Damages {
			found = append(found, damage{Topic: d.Name, Partition: p.Number, BaseOffset: one.Base, NextOffset: one.Next,
				Found: one.Found.UTC().Format(time.RFC3339), File: one.File, Problem: one.Text})
			if left := p.Storage.DamagesTotal - uint32(len(p.Storage.Damages)); i == len(p.Storage.Damages)-1 && left > 0 {
				found[len(found)-1].Unlisted = left
			}
		}
	}
	return found
}

func (s *session) printDamages(found []damage) error {
	if s.output == outputJSON {
		return printJSON(s, found...)
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(s.out, "no damage is known")
		return err
	}
	rows := make([][]string, 0, len(found))
	for _, d := range found {
		rows = append(rows, []string{d.Topic, strconv.FormatUint(uint64(d.Partition), 10), fmt.Sprintf("[%d, %d)", d.BaseOffset, d.NextOffset), d.Found, cmp.Or(d.File, "-"), d.Problem})
		if d.Unlisted > 0 {
			rows = append(rows, []string{d.Topic, strconv.FormatUint(uint64(d.Partition), 10), fmt.Sprintf("and %d more", d.Unlisted), "", "", ""})
		}
	}
	return s.table([]string{"TOPIC", "PARTITION", "OFFSETS", "FOUND", "FILE", "PROBLEM"}, rows)
}

// eachTopicName calls do with the names that are given, or with those of all topics.
// A topic that was deleted meanwhile is left out unless it was named. The timeout is that of each request.
func (s *session) eachTopicName(ctx context.Context, names []string, do func(context.Context, *pulsemq.Admin, string) error) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	a := client.Admin()
	all := len(names) == 0
	if all {
		listing, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		for topic, err := range a.Topics(listing) {
			if err != nil {
				return err
			}
			names = append(names, topic.Name)
		}
	}
	for _, name := range names {
		if err := s.askTopic(ctx, a, name, do); err != nil && (!all || !errors.Is(err, pulsemq.ErrUnknownTopic)) {
			return err
		}
	}
	return nil
}

func (s *session) askTopic(ctx context.Context, a *pulsemq.Admin, name string, do func(context.Context, *pulsemq.Admin, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return do(ctx, a, name)
}

// eachTopic calls do with the descriptions of the topics.
func (s *session) eachTopic(ctx context.Context, names []string, do func(*pulsemq.TopicDescription) error) error {
	return s.eachTopicName(ctx, names, func(ctx context.Context, a *pulsemq.Admin, name string) error {
		d, err := a.DescribeTopic(ctx, name)
		if err != nil {
			return err
		}
		return do(&d)
	})
}
