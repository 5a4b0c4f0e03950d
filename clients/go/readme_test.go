package pulsemq_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme holds the README to what runs: its Go snippets are in the examples line by line, and the tests it names
// exist.
func TestReadme(t *testing.T) {
	readme := file(t, "README.md")
	examples := file(t, "example_test.go") + file(t, "example_group_test.go") + file(t, "example_queue_test.go")
	parts := strings.Split(readme, "```")
	if len(parts) < 5 {
		t.Fatal("the README has no snippets")
	}
	for i := 1; i < len(parts); i += 2 {
		var b strings.Builder
		for _, line := range strings.Split(strings.TrimSpace(strings.TrimPrefix(parts[i], "go\n")), "\n") {
			if line != "" {
				b.WriteString("\t" + line)
			}
			b.WriteString("\n")
		}
		if !strings.Contains(examples, b.String()) {
			t.Errorf("not in example_test.go:\n%s", b.String())
		}
	}
	var tests string
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		tests += file(t, name)
	}
	for i, word := range strings.Split(readme, "`") {
		if i%2 == 1 && strings.HasPrefix(word, "Test") && !strings.Contains(tests, "func "+word+"(") {
			t.Errorf("%s does not exist", word)
		}
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
