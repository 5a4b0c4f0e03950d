package house

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pulsemq/pulsemq"

// folderRule says what the packages of a folder may import beside the standard
// library and packages of the same rule. The longest matching folder decides.
type folderRule struct {
	folder string
	ours   []string // folders of this repository; a trailing /... takes those below too
	theirs []string // module paths, or prefixes of packages
}

var folderRules = []folderRule{
	{"core", nil, nil},
	{"ring", []string{"core"}, []string{"golang.org/x/sys"}},
	{"ring/mail", []string{"core", "proto", "ring"}, nil},
	{"ring/arena", []string{"core", "ring"}, []string{"golang.org/x/sys"}},
	{"proto", nil, []string{"github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}},
	{"segment", []string{"core", "proto"}, nil},
	{"segment/disk", []string{"core", "ring", "segment/disk/..."}, []string{"golang.org/x/sys"}},
	{"segment/disk/disktest", []string{"core", "ring", "segment/disk/..."}, []string{"pgregory.net/rapid"}},
	{"segment/disk/uring", []string{"core", "ring", "segment/disk/..."}, []string{"golang.org/x/sys", "github.com/iceber/iouring-go/syscall"}},
	{"cluster", []string{"core", "proto", "segment"}, nil},
	{"group", []string{"core"}, nil},
	{"queue", []string{"core"}, nil},
	{"cursor", []string{"core", "queue"}, nil},
	{"deadletter", []string{"core", "proto"}, nil},
	{"shard", []string{"core", "proto", "segment", "cluster", "group", "queue", "cursor", "deadletter", "ring/mail"}, []string{"github.com/HdrHistogram/hdrhistogram-go"}},
	{"shard/reactor", []string{"core", "proto", "segment", "segment/disk/...", "cluster", "shard", "ring/..."},
		[]string{"golang.org/x/sys", "github.com/HdrHistogram/hdrhistogram-go"}},
	{"netio", []string{"core", "proto", "ring/..."}, []string{"golang.org/x/sys", "github.com/panjf2000/gnet/v2", "github.com/valyala/bytebufferpool",
		"github.com/VictoriaMetrics/metrics", "github.com/HdrHistogram/hdrhistogram-go"}},
	{"cmd", []string{"/..."}, []string{""}},
	{"clients/go", []string{"proto"}, nil},
	{"bench", []string{"clients/go", "proto"}, []string{""}},
	{"tools", []string{"/..."}, []string{""}},
}

// ruleOf returns the rule of a folder, or nil.
func ruleOf(folder string) *folderRule {
	var best *folderRule
	for i := range folderRules {
		r := &folderRules[i]
		if (folder == r.folder || strings.HasPrefix(folder, r.folder+"/")) && (best == nil || len(r.folder) > len(best.folder)) {
			best = r
		}
	}
	return best
}

// allows reports whether the rule lets its folder import the package.
func (r *folderRule) allows(imported string) bool {
	if folder, ours := strings.CutPrefix(imported, module+"/"); ours {
		if ruleOf(folder) == r {
			return true
		}
		return slices.ContainsFunc(r.ours, func(allowed string) bool {
			base, below := strings.CutSuffix(allowed, "/...")
			return folder == base || below && (base == "" || strings.HasPrefix(folder, base+"/"))
		})
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(r.theirs, func(allowed string) bool {
		return allowed == "" || imported == allowed || strings.HasPrefix(imported, allowed+"/")
	})
}

// The folders a package may import are what keeps the machines pure and the
// client small. Tests may import what they like.
func TestImports(t *testing.T) {
	for _, name := range files(t, ".go") {
		folder := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		rule := ruleOf(folder)
		if rule == nil {
			t.Errorf("%s: no rule says what folder %s may import; add one here and to docs/ARCHITECTURE.md", name, folder)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !rule.allows(imported) {
				t.Errorf("%s imports %s, which %s may not", name, imported, rule.folder)
			}
		}
	}
}

func TestFolderRulesSayNo(t *testing.T) {
	for _, c := range []struct {
		folder, imported string
		want             bool
	}{
		{"core", "net/netip", true},
		{"core", module + "/proto", false},
		{"core", "golang.org/x/sys/unix", false},
		{"segment", module + "/segment/disk/uring", false},
		{"segment/disk/uring", "github.com/iceber/iouring-go/syscall", true},
		{"segment/disk/uring", "github.com/iceber/iouring-go", false},
		{"shard", module + "/netio", false},
		{"shard", module + "/ring", false},
		{"shard", module + "/ring/mail", true},
		{"shard/reactor", module + "/ring", true},
		{"netio", module + "/cluster", false},
		{"netio", module + "/shard", false},
		{"netio", "github.com/panjf2000/gnet/v2", true},
		{"netio/page", module + "/netio", true},
		{"clients/go/producer", module + "/clients/go", true},
		{"clients/go", module + "/core", false},
		{"proto", module + "/core", false},
		{"cmd/pulsemq", module + "/shard/reactor", true},
		{"bench", module + "/shard", false},
	} {
		if got := ruleOf(c.folder).allows(c.imported); got != c.want {
			t.Errorf("%s imports %s: allowed is %v, want %v", c.folder, c.imported, got, c.want)
		}
	}
}

// vague are names that say nothing about what a file or folder holds.
var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "manager", "base", "shared", "lib"}

func TestFilesAreNamedForWhatTheyHold(t *testing.T) {
	for _, name := range files(t, ".go") {
		for _, part := range strings.Split(strings.TrimSuffix(strings.TrimSuffix(name, ".go"), "_test"), "/") {
			if slices.Contains(vague, part) {
				t.Errorf("%s: %q says nothing about what is in it", name, part)
			}
		}
	}
}
