package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// topicDescription is a topic in JSON output of describe.
type topicDescription struct {
	Topic      string                 `json:"topic"`
	ID         string                 `json:"id"`
	Replicas   int                    `json:"replicas"`
	Partitions []partitionDescription `json:"partitions"`
	Config     []configEntry          `json:"config"`
}

type partitionDescription struct {
	Partition      uint32   `json:"partition"`
	Leader         uint32   `json:"leader"`
	LeaderEpoch    int32    `json:"leader_epoch"`
	Replicas       []uint32 `json:"replicas"`
	LogStartOffset int64    `json:"log_start_offset"`
	HighWatermark  int64    `json:"high_watermark"`
	LogEndOffset   int64    `json:"log_end_offset"`
	SizeBytes      uint64   `json:"size_bytes"`
	Damages        []damage `json:"damages,omitempty"`
	Error          string   `json:"error,omitempty"`
}

type configEntry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func newTopicDescribe(s *session) *cobra.Command {
	var explain bool
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show a topic's partitions and settings",
		Long: `Shows where each partition is led, which offsets it holds, and every setting with its
value and where it comes from: the topic itself or the broker's default, and which offsets
the disk has lost, if any. --explain adds what each setting means.`,
		Example: `  pulsectl topic describe orders --explain
  pulsectl topic describe orders -o json`,
		Args:              oneArgument("NAME"),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				d, err := a.DescribeTopic(ctx, args[0])
				if err != nil {
					return err
				}
				if s.output == outputJSON {
					return printJSON(s, descriptionJSON(&d))
				}
				return s.printDescription(&d, explain)
			})
		},
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "also say what each setting means")
	return cmd
}

func descriptionJSON(d *pulsemq.TopicDescription) topicDescription {
	out := topicDescription{
		Topic: d.Name, ID: d.ID.String(), Replicas: int(d.Replicas),
		Partitions: []partitionDescription{}, Config: []configEntry{},
	}
	lost := map[uint32][]damage{}
	for _, one := range damagesOf(d) {
		lost[one.Partition] = append(lost[one.Partition], one)
	}
	for _, p := range d.Partitions {
		one := partitionDescription{
			Partition: p.Number, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas,
			LogStartOffset: p.LogStartOffset, HighWatermark: p.HighWatermark, LogEndOffset: p.LogEndOffset, SizeBytes: p.SizeBytes,
		}
		if p.Err != nil {
			one.Error = p.Err.Error()
		}
		one.Damages = lost[p.Number]
		out.Partitions = append(out.Partitions, one)
	}
	for _, c := range d.Config {
		out.Config = append(out.Config, configEntry{c.Key, c.Value, c.Source.String()})
	}
	return out
}

func (s *session) printDescription(d *pulsemq.TopicDescription, explain bool) error {
	fmt.Fprintf(s.out, "topic %s, id %s, %s, %s\n\n", d.Name, d.ID, counted(len(d.Partitions), "partition"), counted(d.Replicas, "replica"))
	rows := make([][]string, 0, len(d.Partitions))
	for _, p := range d.Partitions {
		row := []string{
			strconv.FormatUint(uint64(p.Number), 10), strconv.FormatUint(uint64(p.Leader), 10), strconv.Itoa(int(p.LeaderEpoch)),
			strconv.FormatInt(p.LogStartOffset, 10), strconv.FormatInt(p.HighWatermark, 10), strconv.FormatInt(p.LogEndOffset, 10),
			strconv.FormatUint(p.SizeBytes, 10),
		}
		if p.Err != nil {
			row = append(row, p.Err.Error())
		}
		rows = append(rows, row)
	}
	err := s.table([]string{"PARTITION", "LEADER", "EPOCH", "LOG START", "HIGH WATERMARK", "LOG END", "BYTES"}, rows)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if found := damagesOf(d); len(found) > 0 {
		fmt.Fprintln(s.out, "DAMAGED: reads of these offsets answer CORRUPT_RECORD, all others are served")
		if err := s.printDamages(found); err != nil {
			return err
		}
		fmt.Fprintln(s.out)
	}
	rows = rows[:0]
	for _, c := range d.Config {
		row := []string{c.Key, c.Value, c.Source.String()}
		if explain {
			doc, _, _ := strings.Cut(c.Doc, "\n")
			row = append(row, strings.ReplaceAll(doc, "`", ""))
		}
		rows = append(rows, row)
	}
	header := []string{"SETTING", "VALUE", "FROM"}
	if explain {
		header = append(header, "MEANING")
	}
	return s.table(header, rows)
}
