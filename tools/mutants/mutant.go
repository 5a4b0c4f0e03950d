package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/tools/overlay"
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
	return slices.Concat(journalMutants, writeMutants, recoveryMutants, stateMutants, folderMutants, diskMutants, shardMutants, groupMutants, queueMutants, burialMutants, protocolMutants, clientMutants)
}

// edits are all changes that take the rule out.
func (m *mutant) edits() []overlay.Edit {
	edits := []overlay.Edit{{File: m.File, Find: m.Find, Put: m.Put}}
	for _, e := range m.Also {
		edits = append(edits, overlay.Edit{File: cmp.Or(e.file, m.File), Find: e.find, Put: e.put})
	}
	return edits
}
