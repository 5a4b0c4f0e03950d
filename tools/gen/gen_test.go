package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is in the repository is what the schema makes. Run go run ./tools/gen when it is not.
func TestGeneratedFilesAreFresh(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Fatal(err)
	}
}

// copySources puts what the generator reads into a folder of its own.
func copySources(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"proto/schema", "proto/testdata/vectors"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, dir)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join("../..", dir))); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func edit(t *testing.T, path, old, new string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("%s does not contain %q", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A check finds each way in which files go stale, and writing heals it.
func TestCheckFindsStaleFiles(t *testing.T) {
	root := copySources(t)
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Fatalf("nothing generated yet: %v", err)
	}
	fresh := func() {
		t.Helper()
		if err := run(root, false); err != nil {
			t.Fatal(err)
		}
		if err := run(root, true); err != nil {
			t.Fatal(err)
		}
	}
	fresh()

	edit(t, filepath.Join(root, "proto/fetch_gen.go"), "MaxRecords", "MaxRecord")
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), "proto/fetch_gen.go is stale") {
		t.Errorf("an edited file: %v", err)
	}
	fresh()

	edit(t, filepath.Join(root, "proto/schema/fetch.yaml"), "Offset of the first record wanted", "Where to start")
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), "stale") {
		t.Errorf("an edited definition: %v", err)
	}
	fresh()

	orphan := filepath.Join(root, "proto/gone_gen.go")
	if err := os.WriteFile(orphan, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), "proto/gone_gen.go") {
		t.Errorf("an orphan: %v", err)
	}
	fresh()
	if _, err := os.Stat(orphan); !os.IsNotExist(err) {
		t.Errorf("the orphan is still there: %v", err)
	}
}

// A mistake in a definition is found by name before anything is written.
func TestSchemaMistakes(t *testing.T) {
	for _, c := range []struct{ name, file, old, new, want string }{
		{"unknown key", "ping.yaml", "answered: true", "answerd: true", "answerd"},
		{"unknown type", "ping.yaml", "type: u64", "type: u65", `no type "u65"`},
		{"number used twice", "ping.yaml", "number: 2", "number: 3", "same number 3"},
		{"number too large", "ping.yaml", "number: 2", "number: 128", "7 bits"},
		{"version 0", "ping.yaml", "version: 1", "version: 0", "version 0"},
		{"field without doc", "ping.yaml", ", doc: 'The number of the request.'", "", "needs a doc"},
		{"field twice", "credit.yaml", "name: bytes", "name: subscription", "there twice"},
		{"tags that fall", "shared.yaml", "tag: 1,", "tag: 0,", "tags must rise"},
		{"no tag", "hello.yaml", "tag: 0, ", "", "have a tag"},
		{"structure twice", "shared.yaml", "- name: truncation", "- name: leader_hint", "defined twice"},
		{"error number twice", "errors.yaml", "number: 31,", "number: 30,", "same number 30"},
		{"reserved error number", "errors.yaml", "number: 31,", "number: 7,", "same number 7"},
		{"unknown detail", "errors.yaml", "details: [leader]", "details: [lead]", `no detail "lead"`},
		{"unknown error", "fetch.yaml", "CORRUPT_RECORD", "CORRUPT_RECORDS", "no error CORRUPT_RECORDS"},
		{"command without messages", "auth.yaml", "reserved: true\n", "", "has messages or is reserved"},
		{"wide enum", "produce.yaml", "type: u8\n    doc: When", "type: u16\n    doc: When", "only u8"},
	} {
		root := copySources(t)
		edit(t, filepath.Join(root, "proto/schema", c.file), c.old, c.new)
		err := run(root, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if found, _ := filepath.Glob(filepath.Join(root, "proto/*_gen.go")); len(found) > 0 {
			t.Errorf("%s: wrote %v", c.name, found)
		}
	}
}

// The documents name their links rightly: every link between pages leads to a page and, with #, to a heading of it.
func TestDocLinks(t *testing.T) {
	s, err := loadSchema("../../proto/schema")
	if err != nil {
		t.Fatal(err)
	}
	files, err := docsBackend{}.files(s, "../..")
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]map[string]bool{}
	for _, f := range files {
		h := map[string]bool{"": true}
		for line := range strings.Lines(string(f.data)) {
			if strings.HasPrefix(line, "#") {
				text := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
				h[strings.ReplaceAll(text, " ", "-")] = true
			}
		}
		headings[filepath.Base(f.path)] = h
	}
	for _, f := range files {
		rest := string(f.data)
		for {
			_, after, ok := strings.Cut(rest, "](")
			if !ok {
				break
			}
			link, tail, _ := strings.Cut(after, ")")
			rest = tail
			page, anchor, _ := strings.Cut(link, "#")
			if page == "" {
				page = filepath.Base(f.path)
			}
			if !headings[page][anchor] {
				t.Errorf("%s: the link %q leads nowhere", f.path, link)
			}
		}
	}
}
