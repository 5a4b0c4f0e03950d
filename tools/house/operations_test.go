package house

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// seriesName is a series of the metrics page as a document names it.
var seriesName = regexp.MustCompile(`\bpulsemq_[a-z0-9_]+\b`)

func TestDocumentsNameMetricsThatExist(t *testing.T) {
	const list = "docs/operations/metrics.md" // which is held against the page itself
	listed := make(map[string]bool)
	for _, match := range regexp.MustCompile("(?m)^\\| `(pulsemq_[a-z0-9_]+)` \\|").FindAllStringSubmatch(read(t, list), -1) {
		listed[match[1]] = true
	}
	if len(listed) == 0 {
		t.Fatalf("%s lists no series", list)
	}
	for _, file := range files(t, ".md") {
		if file == list {
			continue
		}
		for _, name := range seriesName.FindAllString(read(t, file), -1) {
			if !listed[name] {
				t.Errorf("%s names %s, which is not on the metrics page", file, name)
			}
		}
	}
}

// What a document's table under "the log says" quotes stands in the source, word
// for word: it is what a reader searches for.
func TestDocumentsQuoteTheLog(t *testing.T) {
	var source strings.Builder
	for _, file := range files(t, ".go") {
		if !strings.HasSuffix(file, "_test.go") && path.Dir(file) != "tools/house" {
			source.WriteString(read(t, file))
		}
	}
	text, quoted := source.String(), 0
	for _, file := range files(t, ".md") {
		inTable := false
		for line := range strings.Lines(read(t, file)) {
			switch {
			case strings.HasPrefix(line, "| the log says |"):
				inTable = true
			case !strings.HasPrefix(line, "|"):
				inTable = false
			case inTable && strings.HasPrefix(line, "| `"):
				cell, _, _ := strings.Cut(line[len("| "):], " | ")
				for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
					quoted++
					if !strings.Contains(text, match[1]) {
						t.Errorf("%s quotes %q, which no program says", file, match[1])
					}
				}
			}
		}
	}
	if quoted == 0 {
		t.Error("no document quotes the log")
	}
}
