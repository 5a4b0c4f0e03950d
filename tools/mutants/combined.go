package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pulsemq/pulsemq/tools/overlay"
)

// combined is one source that holds many mutants. A build is most of what a mutant
// costs, so they share one: each mutated function stands beside the original under
// another name, and the original begins with a switch that calls it when its mutant
// is the one that the environment chooses.
//
//	func (j *journal) full() bool { switch mutantChosen { case 3: return j.full_mutant3() }; ... }
//	func (j *journal) full_mutant3() bool { ... }
//
// Nothing is chosen by default, and the program is then the original. What is not
// within a function, as a constant, cannot be chosen: such a mutant is built alone.
type combined struct {
	root  string
	files map[string]*combinedFile // by their names from the root
}

// chosenVariable is how a program that is combined is told which mutant it is.
const chosenVariable = "MUTANT"

// combinedFile is a file of the source with the mutants of its functions.
type combinedFile struct {
	source []byte
	pack   string           // its package's name
	calls  map[int][]string // by where a function's body begins: the cases of its switch
	added  bytes.Buffer     // the mutated functions
}

// add takes a mutant in under a number above 0. It says false, and leaves everything
// as it was, when the mutant has to be built alone.
func (c *combined) add(number int, m *mutant) (bool, error) {
	changed, err := overlay.Apply(c.root, m.edits())
	if err != nil {
		return false, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	found := map[string][]swap{}
	for name, mutated := range changed {
		file, err := c.file(name)
		if err != nil {
			return false, err
		}
		swaps, ok, err := swapsOf(file.source, mutated)
		if err != nil {
			return false, fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		if !ok {
			return false, nil
		}
		found[name] = swaps
	}
	for name, swaps := range found {
		for _, s := range swaps {
			c.files[name].put(number, path.Base(name), s)
		}
	}
	return true, nil
}

func (c *combined) file(name string) (*combinedFile, error) {
	if f := c.files[name]; f != nil {
		return f, nil
	}
	source, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	f := &combinedFile{source: source, pack: parsed.Name.Name, calls: map[int][]string{}}
	c.files[name] = f
	return f, nil
}

// swap is a function and what a mutant makes of it.
type swap struct {
	body    int    // where the original's body begins
	call    string // with %s for the name's end
	before  string // the mutated text up to its name's end
	after   string // and from there on
	line    int    // of the mutated text
	results bool
}

// swapsOf finds the functions in which two sources differ. It says false when they
// differ in anything else, or in a function that cannot be called from the original.
func swapsOf(source, mutated []byte) (swaps []swap, ok bool, err error) {
	one, err := declarationsOf(source)
	if err != nil {
		return nil, false, err
	}
	other, err := declarationsOf(mutated)
	if err != nil {
		return nil, false, err
	}
	if len(one) != len(other) {
		return nil, false, nil
	}
	for i := range one {
		if one[i].text == other[i].text {
			continue
		}
		was, is := one[i], other[i]
		if was.function == nil || is.function == nil || was.signature() != is.signature() {
			return nil, false, nil
		}
		call, ok := callOf(was.function)
		if !ok {
			return nil, false, nil
		}
		name := is.at(is.function.Name.End())
		swaps = append(swaps, swap{
			body: was.offset + was.at(was.function.Body.Lbrace) + 1, call: call,
			before: is.text[:name], after: is.text[name:], line: is.line, results: was.function.Type.Results != nil,
		})
	}
	return swaps, len(swaps) > 0, nil
}

// declaration is one of a file's.
type declaration struct {
	text     string
	offset   int // of the text in the file
	line     int
	start    token.Pos
	function *ast.FuncDecl // nil for another kind
}

func declarationsOf(source []byte) (all []declaration, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		from, to := files.Position(d.Pos()), files.Position(d.End())
		one := declaration{text: string(source[from.Offset:to.Offset]), offset: from.Offset, line: from.Line, start: d.Pos()}
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			one.function = f
		}
		all = append(all, one)
	}
	return all, nil
}

// at is where a position of the file is within the text.
func (d *declaration) at(p token.Pos) int { return int(p - d.start) }

// signature is the text in front of the body.
func (d *declaration) signature() string { return d.text[:d.at(d.function.Body.Lbrace)] }

// callOf is how a function calls one that has all it has, but for the end of its name,
// which is left open. It says false for one that cannot.
func callOf(f *ast.FuncDecl) (string, bool) {
	name := f.Name.Name + "%s"
	switch {
	case f.Type.TypeParams != nil || f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main"):
		return "", false
	case f.Recv != nil:
		if len(f.Recv.List[0].Names) == 0 || f.Recv.List[0].Names[0].Name == "_" {
			return "", false
		}
		name = f.Recv.List[0].Names[0].Name + "." + name
	}
	var words []string
	for _, field := range f.Type.Params.List {
		if len(field.Names) == 0 {
			return "", false
		}
		for _, n := range field.Names {
			if n.Name == "_" {
				return "", false
			}
			words = append(words, n.Name)
		}
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			words[len(words)-1] += "..."
		}
	}
	return name + "(" + strings.Join(words, ", ") + ")", true
}

// put takes a mutated function in.
func (f *combinedFile) put(number int, name string, s swap) {
	end := "_mutant" + strconv.Itoa(number)
	call := fmt.Sprintf(s.call, end)
	if s.results {
		call = "return " + call
	} else {
		call += "; return"
	}
	f.calls[s.body] = append(f.calls[s.body], fmt.Sprintf("case %d: %s; ", number, call))
	// What fails in it is said to be where it stands in the mutated file.
	fmt.Fprintf(&f.added, "\n//line %s:%d\n%s%s%s\n", name, s.line, s.before, end, s.after)
}

// text is the file with all its mutants. No line of the original has moved.
func (f *combinedFile) text() []byte {
	var places []int
	for at := range f.calls {
		places = append(places, at)
	}
	slices.Sort(places)
	var out bytes.Buffer
	last := 0
	for _, at := range places {
		out.Write(f.source[last:at])
		fmt.Fprintf(&out, " switch mutantChosen { %s}; ", strings.Join(f.calls[at], ""))
		last = at
	}
	out.Write(f.source[last:])
	out.Write(f.added.Bytes())
	return out.Bytes()
}

// write writes all files, and returns what -overlay of the go command takes.
func (c *combined) write(folder string) (string, error) {
	texts := map[string][]byte{}
	for name, f := range c.files {
		if len(f.calls) == 0 {
			continue
		}
		texts[name] = f.text()
		texts[path.Join(path.Dir(name), "mutant_chosen.go")] = fmt.Appendf(nil,
			"package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutantChosen, _ = strconv.Atoi(os.Getenv(%q))\n", f.pack, chosenVariable)
	}
	return overlay.Lay(c.root, folder, texts)
}
