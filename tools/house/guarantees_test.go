package house

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// heldBy names a test in the last column of a table of guarantees, and the script
// of a test that runs scripts.
var heldBy = regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Za-z0-9_]+)` in `([a-z0-9/]+)`(?: \\(`([a-z0-9_]+\\.txtar)`\\))?")

// guaranteeRows is how many rows each table of docs/operations/guarantees.md has.
// They are counted here as well, so that a promise does not go away unseen together
// with its test.
var guaranteeRows = map[string]int{"D": 7, "S": 18, "P": 7, "N": 8, "C": 4, "Q": 12, "T": 2}

func TestREADMEGuaranteesAreTested(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## What is guaranteed\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| guarantee ") {
			continue
		}
		rows++
		testsExist(t, "README.md", line)
	}
	if rows == 0 {
		t.Error("README.md has no table of guarantees")
	}
}

func TestGuaranteesAreTested(t *testing.T) {
	const file = "docs/operations/guarantees.md"
	row := regexp.MustCompile(`^\| ([A-Z])(\d+) \|`)
	rows := make(map[string]int)
	for line := range strings.Lines(read(t, file)) {
		match := row.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		rows[match[1]]++
		if match[2] != fmt.Sprint(rows[match[1]]) {
			t.Errorf("%s: row %s%s follows %d rows of %[2]s", file, match[1], match[2], rows[match[1]]-1)
		}
		testsExist(t, file, line)
	}
	for area, want := range guaranteeRows {
		if rows[area] != want {
			t.Errorf("%s has %d rows of %s, guaranteeRows says %d", file, rows[area], area, want)
		}
	}
	for area := range rows {
		if guaranteeRows[area] == 0 {
			t.Errorf("%s has rows of %s, which guaranteeRows does not know", file, area)
		}
	}
}

// testsExist wants the last cell of a row to name tests, each of which there is.
func testsExist(t *testing.T, file, line string) {
	t.Helper()
	cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), " | ")
	tests := heldBy.FindAllStringSubmatch(cells[len(cells)-1], -1)
	if tests == nil {
		t.Errorf("%s names no test for: %s", file, line)
	}
	for _, test := range tests {
		name, folder, script := test[1], test[2], test[3]
		if !slices.ContainsFunc(files(t, "_test.go"), func(file string) bool {
			return path.Dir(file) == folder && strings.Contains(read(t, file), "\nfunc "+name+"(")
		}) {
			t.Errorf("%s names %s in %s, which there is none of", file, name, folder)
		}
		if script != "" && !exists(path.Join(folder, "testdata", script)) {
			t.Errorf("%s names %s of %s in %s, which is not there", file, script, name, folder)
		}
	}
}
