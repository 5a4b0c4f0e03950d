package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func newGroup(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Look at consumer groups, set how far they have come, delete them",
		Long: `A consumer group shares the partitions of topics between its members and remembers how far
they were read. consume TOPIC -g GROUP joins one, of the queue kind with --queue: see also queue.`,
		Args: noArgument,
	}
	cmd.AddCommand(newGroupList(s), newGroupDescribe(s), newGroupMembers(s), newGroupLag(s), newGroupSeek(s), newGroupDelete(s))
	return cmd
}

// listedGroup is a group in JSON output of list.
type listedGroup struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	State   string `json:"state"`
	Epoch   int64  `json:"epoch"`
	Members int    `json:"members"`
}

func kindName(k pulsemq.GroupKind) string {
	if k == pulsemq.GroupQueue {
		return "queue"
	}
	return "stream"
}

func stateName(s pulsemq.GroupState) string {
	switch s {
	case pulsemq.GroupSettled:
		return "settled"
	case pulsemq.GroupMoving:
		return "moving"
	}
	return "empty"
}

func newGroupList(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the groups",
		Example: "  pulsectl group list\n  pulsectl group list -o json",
		Args:    noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				var all []listedGroup
				for g, err := range a.ListGroups(ctx) {
					if err != nil {
						return err
					}
					all = append(all, listedGroup{g.Group, kindName(g.Kind), stateName(g.State), g.Epoch, g.Members})
				}
				slices.SortFunc(all, func(a, b listedGroup) int { return cmp.Compare(a.Group, b.Group) })
				if s.output == outputJSON {
					return printJSON(s, all...)
				}
				var rows [][]string
				for _, g := range all {
					rows = append(rows, []string{g.Group, g.Kind, g.State, strconv.FormatInt(g.Epoch, 10), strconv.Itoa(g.Members)})
				}
				return s.table([]string{"GROUP", "KIND", "STATE", "EPOCH", "MEMBERS"}, rows)
			})
		},
	}
}

// groupMember is a member in JSON output.
type groupMember struct {
	MemberID   string           `json:"member_id"`
	Instance   string           `json:"instance,omitempty"`
	ClientName string           `json:"client_name"`
	Host       string           `json:"host"`
	HeardMs    int64            `json:"heard_ms"`
	SessionMs  int64            `json:"session_timeout_ms"`
	Partitions []groupPartition `json:"partitions"`
	Leaving    []groupPartition `json:"leaving,omitempty"`
}

type groupPartition struct {
	Topic     string `json:"topic"`
	Partition uint32 `json:"partition"`
}

// describedGroup is a group in JSON output of describe.
type describedGroup struct {
	Group   string        `json:"group"`
	State   string        `json:"state"`
	Kind    string        `json:"kind"`
	Epoch   int64         `json:"epoch"`
	Members []groupMember `json:"members"`

	Queue []queuePartition `json:"queue,omitempty"` // of a queue group
}

func groupPartitions(places []pulsemq.GroupPlace) []groupPartition {
	list := []groupPartition{}
	for _, p := range places {
		list = append(list, groupPartition{p.Topic, p.Partition})
	}
	return list
}

func groupMembers(d *pulsemq.GroupDescription) []groupMember {
	members := []groupMember{}
	for _, m := range d.Members {
		one := groupMember{MemberID: m.ID, Instance: m.Instance, ClientName: m.ClientName, Host: m.Host, HeardMs: m.Heard.Milliseconds(),
			SessionMs: m.SessionTimeout.Milliseconds(), Partitions: groupPartitions(m.Partitions)}
		if len(m.Leaving) > 0 {
			one.Leaving = groupPartitions(m.Leaving)
		}
		members = append(members, one)
	}
	return members
}

// partitionsText is "orders 0,2,5; clicks 1".
func partitionsText(list []groupPartition) string {
	var b strings.Builder
	for i, p := range list {
		switch {
		case i == 0:
			b.WriteString(p.Topic + " ")
		case list[i-1].Topic != p.Topic:
			b.WriteString("; " + p.Topic + " ")
		default:
			b.WriteString(",")
		}
		b.WriteString(strconv.FormatUint(uint64(p.Partition), 10))
	}
	return b.String()
}

func (s *session) memberTable(members []groupMember) error {
	var rows [][]string
	for _, m := range members {
		rows = append(rows, []string{m.MemberID, m.Instance, m.ClientName, m.Host, (time.Duration(m.HeardMs) * time.Millisecond).String(), partitionsText(m.Partitions)})
	}
	return s.table([]string{"MEMBER", "INSTANCE", "CLIENT", "HOST", "HEARD", "PARTITIONS"}, rows)
}

func newGroupDescribe(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "describe GROUP",
		Short:   "Show a group's state and members",
		Example: "  pulsectl group describe billing\n  pulsectl group describe billing -o json",
		Args:    oneArgument("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				d, err := a.DescribeGroup(ctx, args[0])
				if err != nil {
					return err
				}
				members := groupMembers(&d)
				var queue []queuePartition
				if d.Kind == pulsemq.GroupQueue {
					if queue, err = queueOf(ctx, a, args[0]); err != nil {
						return err
					}
				}
				if s.output == outputJSON {
					return printJSON(s, describedGroup{args[0], stateName(d.State), kindName(d.Kind), d.Epoch, members, queue})
				}
				fmt.Fprintf(s.out, "group %s: %s, %s, epoch %d, %s\n", args[0], kindName(d.Kind), stateName(d.State), d.Epoch, counted(len(members), "member"))
				if len(members) > 0 {
					if err := s.memberTable(members); err != nil {
						return err
					}
				}
				if len(queue) == 0 {
					return nil
				}
				fmt.Fprintln(s.out)
				return s.queueTables(queue)
			})
		},
	}
}

func newGroupMembers(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "members GROUP",
		Short:   "List a group's members and what each reads",
		Example: "  pulsectl group members billing -o json",
		Args:    oneArgument("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				d, err := a.DescribeGroup(ctx, args[0])
				if err != nil {
					return err
				}
				if s.output == outputJSON {
					return printJSON(s, groupMembers(&d)...)
				}
				return s.memberTable(groupMembers(&d))
			})
		},
	}
}

func newGroupDelete(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "delete GROUP",
		Short:   "Delete a group that has no members, with all that it has committed",
		Example: "  pulsectl group delete billing",
		Args:    oneArgument("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.admin(cmd.Context(), func(ctx context.Context, a *pulsemq.Admin) error {
				if err := a.DeleteGroup(ctx, args[0]); err != nil {
					return err
				}
				if s.output == outputJSON {
					return printJSON(s, struct {
						Group   string `json:"group"`
						Deleted bool   `json:"deleted"`
					}{args[0], true})
				}
				fmt.Fprintf(s.out, "deleted group %s\n", args[0])
				return nil
			})
		},
	}
}
