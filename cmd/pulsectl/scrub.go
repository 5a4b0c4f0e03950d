package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func newScrub(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scrub",
		Short: "Have stored records read again and verified",
		Long: `The broker reads everything it has stored again, from the disk, once in
storage.scrub-interval and at most storage.scrub-rate bytes per second, so that damage is
found before the records are needed. These commands show how far it is, and have topics
read now. topic damage lists what was found.`,
		Args: noArgument,
		RunE: func(*cobra.Command, []string) error {
			return usagef("scrub: name a command, such as scrub status")
		},
	}
	cmd.AddCommand(newScrubStatus(s), newScrubStart(s))
	return cmd
}

// verifiedPartition is a partition in JSON output of scrub status.
type verifiedPartition struct {
	Topic         string `json:"topic"`
	Partition     uint32 `json:"partition"`
	SealedBytes   uint64 `json:"sealed_bytes"`
	VerifiedSince string `json:"verified_since,omitempty"`
	Verifying     bool   `json:"verifying"`
	Damages       uint32 `json:"damages"`
	Error         string `json:"error,omitempty"`
}

func newScrubStatus(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "status [TOPIC...]",
		Short: "Show since when stored records are known to be whole",
		Long: `Shows, for each partition of the topics, or of all topics, how much is stored in sealed
form, since when it is verified, whether a scrub start is still under way, and how many
ranges are damaged. Everything that was sealed at the time shown has been read again since.`,
		Example: `  pulsectl scrub status
  pulsectl scrub status orders -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []verifiedPartition
			err := s.eachTopic(cmd.Context(), args, func(d *pulsemq.TopicDescription) error {
				for i := range d.Partitions {
					all = append(all, verified(d.Name, &d.Partitions[i]))
				}
				return nil
			})
			if err != nil {
				return err
			}
			if s.output == outputJSON {
				return printJSON(s, all...)
			}
			rows := make([][]string, 0, len(all))
			for _, p := range all {
				state := p.VerifiedSince
				if state == "" {
					state = "never"
				}
				if p.Verifying {
					state += ", under way"
				}
				row := []string{p.Topic, strconv.FormatUint(uint64(p.Partition), 10), strconv.FormatUint(p.SealedBytes, 10), state, strconv.FormatUint(uint64(p.Damages), 10)}
				if p.Error != "" {
					row = append(row, p.Error)
				}
				rows = append(rows, row)
			}
			return s.table([]string{"TOPIC", "PARTITION", "SEALED BYTES", "VERIFIED SINCE", "DAMAGES"}, rows)
		},
	}
}

func verified(topic string, p *pulsemq.PartitionDescription) verifiedPartition {
	v := verifiedPartition{Topic: topic, Partition: p.Number}
	switch {
	case p.Err != nil:
		v.Error = p.Err.Error()
	case p.Storage == nil:
		v.Error = "this broker does not tell: it is older than this command"
	default:
		v.SealedBytes, v.Verifying, v.Damages = p.Storage.SealedBytes, p.Storage.Verifying, p.Storage.DamagesTotal
		if !p.Storage.VerifiedSince.IsZero() {
			v.VerifiedSince = p.Storage.VerifiedSince.UTC().Format(time.RFC3339)
		}
	}
	return v
}

// scrubPoll is how often scrub start --wait asks whether it is done.
const scrubPoll = 200 * time.Millisecond

func newScrubStart(s *session) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "start [TOPIC...]",
		Short: "Read everything stored of topics again now",
		Long: `Has everything stored of the topics, or of all topics, read again, ahead of the broker's
own rounds and within the same budget, storage.scrub-rate. It returns at once; --wait
waits until all has been read, for as long as that takes, and then exits with 1 when
records are damaged.`,
		Example: `  pulsectl scrub start orders --wait
  pulsectl scrub start`,
		RunE: func(cmd *cobra.Command, args []string) error {
			topics, bytes, failed := []string{}, uint64(0), error(nil)
			err := s.eachTopicName(cmd.Context(), args, func(ctx context.Context, a *pulsemq.Admin, name string) error {
				started, err := a.VerifyTopic(ctx, name)
				if err != nil {
					return err
				}
				topics = append(topics, name)
				for _, v := range started {
					bytes += v.SealedBytes
					if v.Err != nil {
						failed = errors.Join(failed, fmt.Errorf("topic %s partition %d is not read: %w", name, v.Partition, v.Err))
					}
				}
				return nil
			})
			if err != nil {
				return errors.Join(failed, err)
			}
			if s.output == outputJSON && !wait {
				err = printJSON(s, struct {
					Topics int    `json:"topics"`
					Bytes  uint64 `json:"bytes"`
				}{len(topics), bytes})
			} else if !wait {
				_, err = fmt.Fprintf(s.out, "%s of %s are being read again; pulsectl scrub status shows how far it is\n", counted(bytes, "byte"), counted(len(topics), "topic"))
			}
			if err != nil || !wait {
				return errors.Join(failed, err)
			}
			return errors.Join(failed, s.awaitScrub(cmd.Context(), topics))
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end; exit with 1 when records are damaged")
	return cmd
}

// awaitScrub waits until nothing of the topics is being read again, and lists what is damaged.
func (s *session) awaitScrub(ctx context.Context, topics []string) error {
	var found []damage
	for _, topic := range topics {
		for {
			busy := false
			var here []damage
			if err := s.eachTopic(ctx, []string{topic}, func(d *pulsemq.TopicDescription) error {
				for i := range d.Partitions {
					busy = busy || d.Partitions[i].Storage != nil && d.Partitions[i].Storage.Verifying
				}
				here = damagesOf(d)
				return nil
			}); err != nil {
				return err
			}
			if !busy {
				found = append(found, here...)
				break
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(scrubPoll):
			}
		}
	}
	if len(found) == 0 {
		if s.output == outputJSON {
			return nil
		}
		_, err := fmt.Fprintf(s.out, "%s verified: no record is damaged\n", counted(len(topics), "topic"))
		return err
	}
	return errors.Join(s.printDamages(found), fmt.Errorf("%s damaged", counted(len(found), "range")))
}
