package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"go.yaml.in/yaml/v3"
)

// The protocol's list of topic settings is for those who write clients, the
// broker's declarations decide: both must name the same keys and values.
func TestProtocolListsTopicKeys(t *testing.T) {
	var schema struct {
		Configs []struct {
			Key, Kind string
			Values    []string
		} `yaml:"topic_configs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "proto/schema/topic_configs.yaml")), &schema); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, c := range schema.Configs {
		slices.Sort(c.Values)
		got = append(got, fmt.Sprint(c.Key, " ", c.Kind, " ", c.Values))
	}
	for _, key := range core.TopicKeys() {
		choices := slices.Sorted(slices.Values(key.Choices))
		want = append(want, fmt.Sprint(key.Name, " ", key.Kind, " ", choices))
	}
	if !slices.Equal(got, want) {
		t.Errorf("proto/schema/topic_configs.yaml lists\n%q\nthe broker has\n%q", got, want)
	}
}

// A key that nothing reads is a promise nobody keeps. Each field of core.Config is
// read in the broker's wiring or below it as <config>.Group.Field, or as
// group.Field of a variable or field named for the group, or is the default of a
// topic key.
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
					switch group := field.X.(type) {
					case *ast.SelectorExpr:
						used[strings.ToLower(group.Sel.Name)+"."+field.Sel.Name] = true
					case *ast.Ident:
						used[strings.ToLower(group.Name)+"."+field.Sel.Name] = true
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
			name := group.Type.Field(f).Name
			if !used[strings.ToLower(group.Name)+"."+name] {
				t.Errorf("Config.%s.%s is read nowhere: use it, or remove its key", group.Name, name)
			}
		}
	}
}
