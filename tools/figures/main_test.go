package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const repository = "../.."

const measured = `{"runs": 5, "seconds_of_each_run": 6, "environment": {"time": "2026-11-30T02:30:00Z", "cpu_model": "a processor", "cores": 2, "kernel": "Linux 6", "file_system": "ext4",
	"pulsebench_version": "abc"}, "rows": [
	{"name": "batch-sync", "figures": [{"what": "broker", "values": [1], "median": 1234567, "low": 1000000, "high": 2000000}, {"what": "of the echo ceiling", "values": [1], "median": 0.5}]},
	{"name": "single-sync", "figures": [{"what": "broker", "values": [1], "median": 500, "low": 400, "high": 600}, {"what": "of the echo ceiling", "values": [1], "median": 0.4}]},
	{"name": "one-sync", "figures": [{"what": "p50", "values": [1], "median": 0.5, "low": 0.4, "high": 0.6}, {"what": "p99", "values": [1], "median": 1.5}, {"what": "raw write+fdatasync, p50", "values": [1], "median": 0.3}]}]}`

func put(t *testing.T, root, name, text string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestFiguresAreWrittenBetweenTheirMarks(t *testing.T) {
	root := t.TempDir()
	put(t, root, readme, "# A\n\n<!-- figures: written by tools/figures -->\n\nold\n\n<!-- end of figures -->\n\nmore\n")
	put(t, root, index, "# B\n\n<!-- folders: written by tools/figures -->\n\nold\n\n<!-- end of folders -->\n")
	put(t, root, "docs/benchmarks/2026-11/table.json", measured)
	put(t, root, "docs/benchmarks/2026-11/peers.md", "x")
	for range 2 { // again changes nothing
		if err := write(root, "docs/benchmarks/2026-11"); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(root, readme))
	list, _ := os.ReadFile(filepath.Join(root, index))
	for _, want := range []string{"1,234,567 messages/s (1,000,000 to 2,000,000) | 0.50 of", "p50 0.50 ms (0.40 to 0.60), p99 1.50 ms", "a processor, 2 cores", "30 November 2026", "(docs/benchmarks/2026-11/table.md)", "\n\nmore\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") || !strings.Contains(string(list), "(2026-11/table.md)") || !strings.Contains(string(list), "(2026-11/peers.md)") {
		t.Errorf("the documents are\n%s\n%s", text, list)
	}
	put(t, root, "docs/benchmarks/2026-11/table.json", strings.Replace(measured, `"one-sync"`, `"other"`, 1))
	if err := write(root, "docs/benchmarks/2026-11"); err == nil || !strings.Contains(err.Error(), "one-sync") {
		t.Errorf("a table without a row: %v", err)
	}
	if err := write(root, "elsewhere"); err == nil {
		t.Error("figures come from anywhere")
	}
}

// What the documents of this repository say is what was measured.
func TestDocumentsSayWhatWasMeasured(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, readme))
	if err != nil {
		t.Fatal(err)
	}
	before, after, err := around(string(text), "figures")
	if err != nil {
		t.Fatal(err)
	}
	if folder := regexp.MustCompile(`\((docs/benchmarks/[^/)]+)/table\.md\)`).FindStringSubmatch(string(text)); folder != nil {
		measured, err := readTable(repository, folder[1])
		if err != nil {
			t.Fatal(err)
		}
		want, err := measured.headline(folder[1])
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != before+want+after {
			t.Errorf("README.md does not say what %s holds: go run ./tools/figures %s", folder[1], folder[1])
		}
	}
	list, err := folders(repository)
	if err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(filepath.Join(repository, index))
	if err != nil {
		t.Fatal(err)
	}
	if before, after, err = around(string(text), "folders"); err != nil || string(text) != before+list+after {
		t.Errorf("%s does not list the folders of figures: go run ./tools/figures FOLDER (%v)", index, err)
	}
}
