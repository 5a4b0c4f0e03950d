package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Result is one call's.
type Result struct {
	Time     time.Time `json:"time"`
	Machine  string    `json:"machine"`
	Files    string    `json:"file_system"`
	Versions string    `json:"versions"`
	Command  string    `json:"command"`
	Runs     int       `json:"runs"`
	Seconds  float64   `json:"seconds_of_each_run"`
	Contests []Table   `json:"contests"`
}

// Table is one contest's.
type Table struct {
	Name      string     `json:"name"`
	Workload  string     `json:"workload"`
	Standings []Standing `json:"standings"`
}

func newResult(s Settings, command string) *Result {
	return &Result{Time: time.Now().UTC().Truncate(time.Second), Machine: machine(), Files: fileSystem(s.Folder), Versions: versions(), Command: command,
		Runs: s.Runs, Seconds: s.Duration.Seconds()}
}

// machine names what the figures were measured on, as far as this system says it.
func machine() string {
	model := "processor not known"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-") // behind it somebody's own name for a build
	return fmt.Sprintf("%s, %d cores, %s %s %s", model, runtime.NumCPU(), runtime.GOOS, kernel, runtime.GOARCH)
}

// fileSystem is the kind of what a folder lies on: that of the mount with the longest name above it.
func fileSystem(folder string) string {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return unknown
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	longest, kind := -1, unknown
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		point := fields[1]
		inside := folder == point || point == "/" || strings.HasPrefix(folder, point+"/")
		if inside && len(point) >= longest {
			longest, kind = len(point), fields[2]
		}
	}
	return kind
}

// unknown stands for what this system does not say.
const unknown = "file system not known"

// WriteJSON writes everything as one object.
func (r *Result) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// columns are a standing's cells, the same for people and Markdown.
func (s *Standing) columns() []string {
	if s.Failed != "" {
		reason, _, _ := strings.Cut(s.Failed, "\n")
		return []string{s.Name, s.Detail, "failed: " + strings.ReplaceAll(reason, "|", "/"), "", "", "", "", ""}
	}
	name, ratio, floor, verdict := s.Name, fmt.Sprintf("%.2f x", s.Ratio), "", ""
	if s.Best && s.Floor > 0 {
		floor, verdict = fmt.Sprintf("at least %g x", s.Floor), "not met"
		if s.FloorMet {
			verdict = "met"
		}
	}
	latency := "-"
	if p50 := median(s.P50); p50 > 0 {
		latency = fmt.Sprintf("%.2f / %.2f ms", p50, median(s.P99))
	}
	return []string{name, s.Detail, grouped(s.Median), spread(s.Rates), latency, ratio, floor, verdict}
}

var heads = []string{"broker", "spread over", "messages/s", "spread", "p50 / p99", "ours is", "floor", ""}

// WriteTable prints the contests for people.
func (r *Result) WriteTable(w io.Writer) error {
	for _, table := range r.Contests {
		fmt.Fprintf(w, "\n%s; %s of %g s\n", table.Workload, medians(r.Runs), r.Seconds)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, strings.Join(heads, "\t"))
		for i := range table.Standings {
			fmt.Fprintln(t, strings.Join(table.Standings[i].columns(), "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// WriteMarkdown writes them as a page.
func (r *Result) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Beside other brokers\n\n%s, %s; each broker shares this one machine with its load client.\n%s.\nMeasured %s, %s of %g s, taken in turns. ",
		r.Machine, r.Files, r.Versions, r.Time.Format("2006-01-02 15:04 UTC"), medians(r.Runs), r.Seconds)
	fmt.Fprintf(&b, "Every acknowledged message was read back. What ours is, is the\nmedian of the ratios of each turn; of a broker with several numbers of streams the best is held against the floor.\n\n```\n%s\n```\n", r.Command)
	for _, table := range r.Contests {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", table.Workload, strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
		for i := range table.Standings {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(table.Standings[i].columns(), " | "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// medians says how a figure comes about.
func medians(runs int) string {
	if runs == 1 {
		return "one run"
	}
	return fmt.Sprintf("medians of %d runs", runs)
}

func spread(values []float64) string {
	if len(values) < 2 {
		return ""
	}
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	return grouped(low) + " to " + grouped(high)
}

// grouped writes a whole number with its thousands apart.
func grouped(v float64) string {
	text := strconv.FormatInt(int64(v+0.5), 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
