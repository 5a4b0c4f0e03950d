package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// table is what this program reads of a table.json.
type table struct {
	Runs        int
	Seconds     float64 `json:"seconds_of_each_run"`
	Rows        []row
	Environment struct {
		Time       time.Time
		CPU        string `json:"cpu_model"`
		Cores      int
		Kernel     string
		FileSystem string `json:"file_system"`
		Version    string `json:"pulsebench_version"`
	}
}

type row struct {
	Name    string
	Skipped string
	Figures []figure
}

type figure struct {
	What, Unit        string
	Values            []float64
	Median, Low, High float64
}

func readTable(root, folder string) (*table, error) {
	text, err := os.ReadFile(filepath.Join(root, folder, "table.json"))
	if err != nil {
		return nil, err
	}
	t := new(table)
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("%s/table.json: %w", folder, err)
	}
	return t, nil
}

// context names the machine and the day.
func (t *table) context() string {
	env := &t.Environment
	return fmt.Sprintf("%s, %d cores, %s, %s; version %s, %s", env.CPU, env.Cores, env.Kernel, env.FileSystem, env.Version, env.Time.Format("2 January 2006"))
}

// figure finds one.
func (t *table) figure(name, what string) (*figure, error) {
	for i := range t.Rows {
		if t.Rows[i].Name != name {
			continue
		}
		for k := range t.Rows[i].Figures {
			if f := &t.Rows[i].Figures[k]; f.What == what && len(f.Values) > 0 {
				return f, nil
			}
		}
		return nil, fmt.Errorf("row %s has no figure %q: %s", name, what, t.Rows[i].Skipped)
	}
	return nil, fmt.Errorf("there is no row %s", name)
}

// headline is the section of README.md.
func (t *table) headline(folder string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. Broker and load client share the machine;\nmedians of %d runs of %g s, with their spread. Every message was read back: none lost, doubled or out of order.\n\n", t.context(), t.Runs, t.Seconds)
	b.WriteString("| load, durability `sync` | | beside |\n|---|---|---|\n")
	for _, line := range []struct{ name, load string }{
		{"batch-sync", "1,000 messages of 256 bytes a request, 64 in flight, 128 partitions, flat out"},
		{"single-sync", "one message of 256 bytes a request, 64 connections with 32 in flight, 128 partitions, flat out"},
	} {
		rate, err := t.figure(line.name, "broker")
		if err != nil {
			return "", err
		}
		share, err := t.figure(line.name, "of the echo ceiling")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s | %s messages/s (%s to %s) | %.2f of what a server takes that only acknowledges |\n", line.load, grouped(rate.Median), grouped(rate.Low), grouped(rate.High), share.Median)
	}
	p50, err := t.figure("one-sync", "p50")
	if err != nil {
		return "", err
	}
	p99, err := t.figure("one-sync", "p99")
	if err != nil {
		return "", err
	}
	raw, err := t.figure("one-sync", "raw write+fdatasync, p50")
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "| one message of 256 bytes a request, one in flight | p50 %.2f ms (%.2f to %.2f), p99 %.2f ms | p50 %.2f ms of a write with an fdatasync on the same disk |\n\n",
		p50.Median, p50.Low, p50.High, p99.Median, raw.Median)
	b.WriteString("    make bench ROWS=batch-sync,single-sync,one-sync\n\n")
	fmt.Fprintf(&b, "[The whole table](%s/table.md), with what each row is held against, and how to run it: [docs/benchmarks](docs/benchmarks/README.md).", folder)
	return b.String(), nil
}

// grouped writes a whole number with its thousands apart.
func grouped(v float64) string {
	text := strconv.FormatInt(int64(v+0.5), 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
