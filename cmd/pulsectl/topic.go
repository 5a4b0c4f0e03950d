package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func newTopic(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Create, list, describe, alter and delete topics",
		Long: `A topic is a named log, split into partitions. Records of one partition keep their
order; partitions spread the load.`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error { return usagef("topic: name a command, such as topic list") },
	}
	cmd.AddCommand(newTopicCreate(s), newTopicList(s), newTopicDescribe(s), newTopicDelete(s),
		newTopicAlter(s), newTopicOffsets(s), newTopicTrim(s), newTopicDamage(s))
	return cmd
}

func newTopicCreate(s *session) *cobra.Command {
	var spec pulsemq.TopicSpec
	var config []string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Long: `Creates a topic. What is not given is the broker's default: see the keys
partitions.default-count and replication.factor of its configuration.

Names have 1 to 249 of the characters A-Z a-z 0-9 . _ -

` + topicSettingsHelp(),
		Example: `  pulsectl topic create orders --partitions 8
  pulsectl topic create audit --config durability=sync --config retention.ms=30d
  pulsectl topic create prices --config cleanup.policy=compact`,
		Args: oneArgument("NAME"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			spec.Name = args[0]
			if spec.Config, err = settings(config); err != nil {
				return err
			}
			if cmd.Flags().Changed("partitions") && spec.Partitions == 0 {
				return usagef("--partitions 0: a topic has at least one")
			}
			if cmd.Flags().Changed("replicas") && spec.Replicas == 0 {
				return usagef("--replicas 0: a topic has at least one")
			}
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				created, err := a.CreateTopic(ctx, spec)
				if err != nil {
					return err
				}
				if s.output == outputJSON {
					return printJSON(s, topicSummary{Topic: created.Name, ID: topicIDText(created.ID), Partitions: int(created.Partitions), Replicas: int(created.Replicas)})
				}
				verb := "created"
				if spec.ValidateOnly {
					verb = "could be created"
				}
				_, err = fmt.Fprintf(s.out, "topic %s %s: %s, %s\n", created.Name, verb, counted(created.Partitions, "partition"), counted(created.Replicas, "replica"))
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.Uint32Var(&spec.Partitions, "partitions", 0, "number of partitions (default: the broker's)")
	flags.Uint16Var(&spec.Replicas, "replicas", 0, "copies of each partition, on as many brokers (default: the broker's)")
	flags.StringArrayVar(&config, "config", nil, "setting of the topic, KEY=VALUE; repeatable")
	flags.BoolVar(&spec.ValidateOnly, "dry-run", false, "check everything and create nothing")
	_ = cmd.RegisterFlagCompletionFunc("config", completeSetting)
	return cmd
}

// topicSummary is a topic in JSON output.
type topicSummary struct {
	Topic      string `json:"topic"`
	ID         string `json:"id,omitempty"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
}

// topicIDText is empty for the id that a dry run does not give.
func topicIDText(id pulsemq.TopicID) string {
	if id == (pulsemq.TopicID{}) {
		return ""
	}
	return id.String()
}

func newTopicList(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the topics by name",
		Example: `  pulsectl topic list -o json`,
		Args:    noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				summaries := []topicSummary{}
				for topic, err := range a.Topics(ctx) {
					if err != nil {
						return err
					}
					summaries = append(summaries, summarize(topic))
				}
				if s.output == outputJSON {
					return printJSON(s, summaries...)
				}
				rows := make([][]string, 0, len(summaries))
				for _, t := range summaries {
					rows = append(rows, []string{t.Topic, strconv.Itoa(t.Partitions), strconv.Itoa(t.Replicas), t.ID})
				}
				return s.table([]string{"TOPIC", "PARTITIONS", "REPLICAS", "ID"}, rows)
			})
		},
	}
}

func summarize(t pulsemq.Topic) topicSummary {
	summary := topicSummary{Topic: t.Name, ID: t.ID.String(), Partitions: len(t.Partitions)}
	if len(t.Partitions) > 0 {
		summary.Replicas = len(t.Partitions[0].Replicas)
	}
	return summary
}

func newTopicDelete(s *session) *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a topic and all its records",
		Long:              `Deletes a topic. Its records are gone when the command returns; there is no way back.`,
		Example:           `  pulsectl topic delete orders`,
		Args:              oneArgument("NAME"),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				id, err := a.DeleteTopic(ctx, args[0])
				if err != nil {
					return err
				}
				if s.output == outputJSON {
					return printJSON(s, struct {
						Topic string `json:"topic"`
						ID    string `json:"id"`
					}{args[0], id.String()})
				}
				_, err = fmt.Fprintf(s.out, "topic %s deleted\n", args[0])
				return err
			})
		},
	}
}

func newTopicAlter(s *session) *cobra.Command {
	var change pulsemq.TopicChange
	var config []string
	cmd := &cobra.Command{
		Use:   "alter NAME",
		Short: "Change a topic's settings or add partitions",
		Long: `Changes settings of a topic; those that are not named stay. --unset puts one back to
the broker's default. Partitions can be added, never taken away; keys of old records
stay where they are.

` + topicSettingsHelp(),
		Example: `  pulsectl topic alter orders --config retention.ms=7d --config retention.bytes=10GB
  pulsectl topic alter orders --unset retention.bytes
  pulsectl topic alter orders --partitions 16`,
		Args:              oneArgument("NAME"),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if change.Set, err = settings(config); err != nil {
				return err
			}
			if cmd.Flags().Changed("partitions") && change.Partitions == 0 {
				return usagef("--partitions 0: a topic has at least one")
			}
			if len(change.Set) == 0 && len(change.Unset) == 0 && change.Partitions == 0 {
				return usagef("topic alter: say what to change with --config, --unset or --partitions")
			}
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				partitions, err := a.AlterTopic(ctx, args[0], change)
				if err != nil {
					return err
				}
				if s.output == outputJSON {
					return printJSON(s, struct {
						Topic      string `json:"topic"`
						Partitions uint32 `json:"partitions"`
					}{args[0], partitions})
				}
				verb := "altered"
				if change.ValidateOnly {
					verb = "could be altered"
				}
				_, err = fmt.Fprintf(s.out, "topic %s %s: %s\n", args[0], verb, counted(partitions, "partition"))
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&config, "config", nil, "setting to change, KEY=VALUE; repeatable")
	flags.StringArrayVar(&change.Unset, "unset", nil, "setting to put back to the broker's default; repeatable")
	flags.Uint32Var(&change.Partitions, "partitions", 0, "new number of partitions, more than now")
	flags.BoolVar(&change.ValidateOnly, "dry-run", false, "check everything and change nothing")
	_ = cmd.RegisterFlagCompletionFunc("config", completeSetting)
	_ = cmd.RegisterFlagCompletionFunc("unset", completeSettingKey)
	return cmd
}
