package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// In the packages that make test runs without the race detector nothing runs beside anything else: no goroutine is
// started, neither by the code nor by the tests. Benchmarks, which make test does not run, may.
func TestNothingRunsBesideInAlone(t *testing.T) {
	match := regexp.MustCompile(`(?m)^ALONE := \$\(addprefix ` + regexp.QuoteMeta(module) + `/,([^)]+)\)$`).FindStringSubmatch(read(t, "Makefile"))
	if match == nil {
		t.Fatal("the Makefile does not say which packages are ALONE")
	}
	for _, folder := range strings.Fields(match[1]) {
		names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(names) == 0 {
			t.Errorf("%s: no source: %v", folder, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_bench_test.go") {
				continue
			}
			if at := startsGoroutine(t, name); at != "" {
				t.Errorf("%s starts a goroutine: take %s out of ALONE in the Makefile, or do without", at, folder)
			}
		}
	}
}

// startsGoroutine is where a file first starts a goroutine, or has a test run beside others; empty if nowhere.
func startsGoroutine(t *testing.T, name string) (at string) {
	t.Helper()
	places := token.NewFileSet()
	file, err := parser.ParseFile(places, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		_, isGo := n.(*ast.GoStmt)
		if isCall {
			s, ok := call.Fun.(*ast.SelectorExpr)
			isGo = ok && (s.Sel.Name == "Go" || s.Sel.Name == "Parallel")
		}
		if isGo && at == "" {
			at = places.Position(n.Pos()).String()
		}
		return at == ""
	})
	return at
}
