package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// A key that nothing reads is a promise nobody keeps. Each field of core.Config is
// read in the broker's wiring or below it as <config>.Group.Field, or is the
// default of a topic key.
func TestEveryKeyIsUsed(t *testing.T) {
	if !exists("cmd/pulsemq/broker.go") {
		t.Skip("there is no broker yet that could use the keys")
	}
	used := make(map[string]bool)
	for _, name := range files(t, ".go") {
		inCore := strings.HasPrefix(name, "core/")
		if strings.HasSuffix(name, "_test.go") || inCore && name != "core/config.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			// In core only the defaults of topics count: resolve reads fields to fill them.
			if f, ok := declaration.(*ast.FuncDecl); inCore && (!ok || f.Name.Name != "TopicDefaults") {
				continue
			}
			ast.Inspect(declaration, func(node ast.Node) bool {
				if field, ok := node.(*ast.SelectorExpr); ok {
					if group, ok := field.X.(*ast.SelectorExpr); ok {
						used[group.Sel.Name+"."+field.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	config := reflect.TypeFor[core.Config]()
	for g := range config.NumField() {
		group := config.Field(g)
		for f := range group.Type.NumField() {
			if name := group.Name + "." + group.Type.Field(f).Name; !used[name] {
				t.Errorf("Config.%s is read nowhere: use it, or remove its key", name)
			}
		}
	}
}
