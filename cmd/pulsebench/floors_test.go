package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page that explains the rows lists the floors that they are held against, and every row has one.
func TestFloorsAreThoseOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/benchmarks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The floors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := regexp.MustCompile("(?m)^\\| `.*$").FindAllString(section, -1)
	var declared []string
	for _, f := range floors {
		declared = append(declared, fmt.Sprintf("| `%s` | %s | %s |", f.row, f.figure, f.bound.Text(f.unit)))
		if !slices.Contains(rowNames(), f.row) {
			t.Errorf("a floor is for %s, which is no row", f.row)
		}
	}
	if !slices.Equal(documented, declared) {
		t.Errorf("docs/benchmarks/README.md lists the floors as\n%s\nand they are\n%s", strings.Join(documented, "\n"), strings.Join(declared, "\n"))
	}
	for _, row := range rowNames() {
		if !slices.ContainsFunc(floors, func(f floor) bool { return f.row == row }) {
			t.Errorf("row %s has no floor", row)
		}
		if !strings.Contains(string(text), "`"+row+"`") {
			t.Errorf("docs/benchmarks/README.md says nothing of row %s", row)
		}
	}
}

// Every flag that the runner is known by is there on each of its commands.
func TestEveryNamedFlagIsThere(t *testing.T) {
	named := strings.Fields("brokers topic partitions replicas durability acks record-size batch-records connections in-flight rate duration compression json hdr sdk")
	root := newRoot(&session{})
	for command, more := range map[string]string{"produce": "producers", "consume": "consumers", "e2e": "producers consumers"} {
		found, _, err := root.Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range append(strings.Fields(more), named...) {
			if found.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s", command, flag)
			}
		}
	}
	if found, _, err := root.Find([]string{"ceiling"}); err != nil || found.Flags().Lookup("dir") == nil {
		t.Errorf("ceiling has no --dir: %v", err)
	}
}

func TestRestartHasPartitionsWithLargeActiveSegments(t *testing.T) {
	topics := restartTopics(2000, 20<<30)
	large, small := topics[0], topics[1]
	if large.partitions+small.partitions != 2000 || large.bytes+small.bytes != 20<<30 || large.bytes/int64(large.partitions) < 64<<20 {
		t.Errorf("%+v", topics)
	}
	for partitions := 1; partitions < 4; partitions++ {
		sum := 0
		for _, topic := range restartTopics(partitions, 1<<20) {
			if sum += topic.partitions; topic.bytes < 1 || topic.partitions < 1 {
				t.Errorf("%+v", topic)
			}
		}
		if sum != partitions {
			t.Errorf("%d partitions are %d", partitions, sum)
		}
	}
}

func TestTableNamesTheCommandThatRepeatsIt(t *testing.T) {
	for want, args := range map[string][]string{
		"make bench":                      {"--dir", "/secret", "--out", "/secret/out", "--program", "/secret/pulsemq"},
		"make bench RUNS=3":               {"--runs", "3", "--dir", "/secret"},
		"make bench ROWS=idle,batch-sync": {"--rows", "idle,batch-sync", "--brokers", "secret:1"},
		"bin/pulsebench table --duration=2s --rows=idle --set broker.shards=2": {"--rows", "idle", "--duration", "2s", "--set", "broker.shards=2"},
	} {
		tbl := &table{bench: bench{session: &session{}}}
		cmd := newTableOf(tbl)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if got := tbl.command(cmd); got != want {
			t.Errorf("%v is repeated with %s, want %s", args, got, want)
		}
	}
}
