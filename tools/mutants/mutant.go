package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
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
	// Also are further edits, for a rule that stands in two places.
	Also []edit
	// Tests must each fail: the folder of their package, a dot, the function, and
	// behind a slash a subtest if only that one is meant.
	Tests []string
	// Hangs says that the tests fail by never coming to an end.
	Hangs bool
}

// edit is one more change, of File or of another file of its folder.
type edit struct{ find, put, file string }

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
	return slices.Concat(journalMutants, writeMutants, recoveryMutants, stateMutants, folderMutants, diskMutants, shardMutants, protocolMutants, clientMutants)
}

// mutated is the content of each changed file, by its path from the root.
func (m *mutant) mutated(root string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, e := range append([]edit{{find: m.Find, put: m.Put}}, m.Also...) {
		name := e.file
		if name == "" {
			name = m.File
		}
		source, ok := changed[name]
		if !ok {
			var err error
			if source, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				return nil, err
			}
		}
		switch n := bytes.Count(source, []byte(e.find)); {
		case e.find == e.put:
			return nil, fmt.Errorf("mutant %s changes nothing", m.Name)
		case n != 1:
			return nil, fmt.Errorf("mutant %s: its text occurs %d times in %s, it must occur exactly once; the source has changed, so find the rule again:\n%s",
				m.Name, n, name, e.find)
		}
		changed[name] = bytes.Replace(source, []byte(e.find), []byte(e.put), 1)
	}
	return changed, nil
}

// overlay writes the mutated files and the map that lays them over the source into
// a folder, and returns the map's name.
func (m *mutant) overlay(root, folder string) (string, error) {
	changed, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, source := range changed {
		to := filepath.Join(folder, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(to, source, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(folder, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}
