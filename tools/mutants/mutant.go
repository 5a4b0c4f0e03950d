package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// mutant takes one rule out of the source.
type mutant struct {
	// Name is short and unique; -run matches it.
	Name string
	// Rule is a sentence: what holds while the mutant is not there.
	Rule string
	// File is where the rule stands, from the repository's root.
	File string
	// Find occurs exactly once in File; Put takes its place.
	Find, Put string
	// Tests must each fail: the folder of their package, a dot, the function, and
	// behind a slash a subtest if only that one is meant.
	Tests []string
	// Hangs says that the tests fail by never coming to an end.
	Hangs bool
}

// test is one entry of Tests taken apart.
type test struct {
	folder string // of the package, from the root
	name   string // of the function
	sub    string // of the subtest; empty is the whole test
}

func (t test) String() string {
	s := t.folder + "." + t.name
	if t.sub != "" {
		s += "/" + t.sub
	}
	return s
}

// parseTest takes "shard/reactor.TestName/sub" apart.
func parseTest(s string) (test, error) {
	dot := strings.Index(s, ".Test")
	if dot <= 0 {
		return test{}, fmt.Errorf("test %q: expected the folder of a package, a dot and the test, as in segment.TestPrefixRule", s)
	}
	t := test{folder: s[:dot], name: s[dot+1:]}
	t.name, t.sub, _ = strings.Cut(t.name, "/")
	return t, nil
}

// all is every table, in the order in which -list prints them.
func all() []mutant {
	return slices.Concat(journalMutants)
}

// mutated is the file's content with the rule taken out.
func (m *mutant) mutated(root string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, err
	}
	source := string(b)
	switch n := strings.Count(source, m.Find); {
	case m.Find == m.Put:
		return nil, fmt.Errorf("mutant %s changes nothing", m.Name)
	case n != 1:
		return nil, fmt.Errorf("mutant %s: its text occurs %d times in %s, it must occur exactly once; the source has changed, so find the rule again:\n%s",
			m.Name, n, m.File, m.Find)
	}
	return []byte(strings.Replace(source, m.Find, m.Put, 1)), nil
}

// overlay writes the mutated file and the map that lays it over the source into a
// folder, and returns the map's name.
func (m *mutant) overlay(root, folder string) (string, error) {
	source, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(folder, path.Base(m.File))
	if err := os.WriteFile(changed, source, 0o600); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, filepath.FromSlash(m.File)): changed},
	})
	if err != nil {
		return "", err
	}
	name := filepath.Join(folder, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}
