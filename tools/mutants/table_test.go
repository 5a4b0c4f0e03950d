package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pulsemq/pulsemq/tools/overlay"
)

func testRoot(t *testing.T) string {
	t.Helper()
	root, err := overlay.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// Every mutant's text occurs exactly once, the mutated package compiles, and the
// tests that hold the rule exist.
func TestTable(t *testing.T) {
	c := &checker{root: testRoot(t)}
	names := map[string]bool{}
	for _, m := range all() {
		if m.Name == "" || names[m.Name] {
			t.Errorf("the name %q is not unique", m.Name)
		}
		names[m.Name] = true
		if !strings.HasSuffix(m.Rule, ".") || strings.Contains(m.Rule, "\n") {
			t.Errorf("mutant %s: its rule is no sentence: %q", m.Name, m.Rule)
		}
		if err := c.check(t.Context(), &m); err != nil {
			t.Error(err)
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %d mutants", len(names))
	}
}

// The checker notices each way in which a mutant can rot.
func TestCheckerRefuses(t *testing.T) {
	c := &checker{root: testRoot(t)}
	good := mutant{
		Name: "good", Rule: "A sentence.", File: "tools/mutants/mutant.go",
		Find: "return slices.Concat(", Put: "return append(slices.Concat(journalMutants), ", Tests: []string{"tools/mutants.TestTable"},
	}
	good.Find, good.Put = "func parseTest(s string) (test, error) {", "func parseTest(s string) (test, error) {\n\ts += \"\"\n"
	if err := c.check(t.Context(), &good); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		want string
		edit func(*mutant)
	}{
		{"occurs 0 times", func(m *mutant) { m.Find = "no such text" }},
		{"it must occur exactly once", func(m *mutant) { m.Find = "return" }},
		{"changes nothing", func(m *mutant) { m.Put = m.Find }},
		{"does not compile", func(m *mutant) { m.Put += "\tvar unused int\n" }},
		{"names no test", func(m *mutant) { m.Tests = nil }},
		{"there is no test TestMissing", func(m *mutant) { m.Tests = []string{"tools/mutants.TestMissing"} }},
		{"expected the folder", func(m *mutant) { m.Tests = []string{"TestTable"} }},
	} {
		m := good
		change.edit(&m)
		if err := c.check(t.Context(), &m); err == nil || !strings.Contains(err.Error(), change.want) {
			t.Errorf("%s: got %v", change.want, err)
		}
	}
}

// judge tells a failed check from a test that was not run and one whose time ran out.
func TestJudge(t *testing.T) {
	one := test{"segment", "TestX", ""}
	for _, c := range []struct {
		name, said string
		want       outcome
	}{
		{"passed", "=== RUN   TestX\n--- PASS: TestX (0.00s)\nPASS\n", passed},
		{"failed", "=== RUN   TestX\n    x_test.go:3: no\n--- FAIL: TestX (0.00s)\nFAIL\n", failed},
		{"another one failed", "--- FAIL: TestXY (0.00s)\nFAIL\n", notRun},
		{"a part of another one", "    --- FAIL: TestXY/TestX (0.00s)\nFAIL\n", notRun},
		{"nothing was run", "testing: warning: no tests to run\nPASS\n", notRun},
		{"panicked", "=== RUN   TestX\n--- FAIL: TestX (0.00s)\npanic: an invariant [recovered]\n", panicked},
		{"hung", "=== RUN   TestX\npanic: test timed out after 1s\n", hung},
	} {
		if got := judge(one, c.said); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	part := test{"segment", "TestX", "one"}
	if got := judge(part, "--- FAIL: TestX (0.00s)\n    --- PASS: TestX/one (0.00s)\n    --- FAIL: TestX/two (0.00s)\n"); got != passed {
		t.Errorf("a subtest that passed: %s", got)
	}
}

// The run itself, with mutants that a test kills, one of them built alone, and one that
// none does.
func TestRunKillsAndReportsSurvivors(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a package three times")
	}
	var said strings.Builder
	r := &runner{root: testRoot(t), limit: time.Minute, jobs: 1, out: &said}
	killed := mutant{
		Name: "killed", Rule: "A time in the past is due.", File: "tools/mutants/run.go",
		Find: `"was not run", "passed"`, Put: `"passed", "was not run"`, Tests: []string{"tools/mutants.TestOutcomeNames"},
	}
	survivor := killed
	survivor.Name, survivor.Tests = "survivor", []string{"tools/mutants.TestJudge"}
	alone := killed
	alone.Name, alone.Find, alone.Put = "alone", "passed\n\tfailed\n", "failed\n\tpassed\n"
	err := r.run(context.Background(), []mutant{killed, survivor, alone})
	if err == nil || !strings.Contains(err.Error(), "1 of 3 mutants are not as the table says: survivor") {
		t.Fatalf("got %v; it said\n%s", err, said.String())
	}
	for _, want := range []string{"killed   killed", "SURVIVED survivor", "killed   alone", "2 of 3 mutants share 1 programs, 1 are built alone", "2 of 3 mutants killed"} {
		if !strings.Contains(said.String(), want) {
			t.Fatalf("it said\n%s\nwant %s", said.String(), want)
		}
	}
}

func TestOutcomeNames(t *testing.T) {
	if passed.String() != "passed" || hung.String() != "did not end" {
		t.Fatalf("passed is %q, hung is %q", passed, hung)
	}
}
