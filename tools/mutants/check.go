package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/pulsemq/pulsemq/tools/overlay"
)

// checker says whether mutants still apply and compile, without building them: the
// packages that they change are type-checked against what the go command has
// already compiled.
type checker struct {
	root     string
	packages map[string]*checked // by folder
}

// checked is a package whose files are mutated one at a time.
type checked struct {
	path    string // import path
	names   []string
	exports map[string]string // import path -> file with its compiled form
	files   *token.FileSet
	parsed  map[string]*ast.File
	imports types.Importer
}

// listed is what the checker needs of go list.
type listed struct {
	ImportPath string
	Dir        string
	Export     string
	GoFiles    []string
	DepOnly    bool
}

// load has the go command compile what a package imports and parses its own files.
func (c *checker) load(ctx context.Context, folder string) (*checked, error) {
	if p := c.packages[folder]; p != nil {
		return p, nil
	}
	command := exec.CommandContext(ctx, "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", ".")
	command.Dir = filepath.Join(c.root, filepath.FromSlash(folder))
	var bad bytes.Buffer
	command.Stderr = &bad
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w: %s", folder, err, bad.String())
	}
	p := &checked{exports: map[string]string{}, files: token.NewFileSet(), parsed: map[string]*ast.File{}}
	for lines := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := lines.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		p.exports[l.ImportPath] = l.Export
		if l.DepOnly {
			continue
		}
		p.path, p.names = l.ImportPath, l.GoFiles
		for _, name := range l.GoFiles {
			file, err := parser.ParseFile(p.files, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					f.Body = nil // only the mutated file's functions are looked into
				}
			}
			p.parsed[name] = file
		}
	}
	p.imports = importer.ForCompiler(p.files, "gc", func(path string) (io.ReadCloser, error) {
		name := p.exports[path]
		if name == "" {
			return nil, fmt.Errorf("package %s is not compiled", path)
		}
		return os.Open(name)
	})
	if c.packages == nil {
		c.packages = map[string]*checked{}
	}
	c.packages[folder] = p
	return p, nil
}

// check says what is wrong with a mutant: its text is gone or not unique, the
// package does not compile with it, or a test of it does not exist.
func (c *checker) check(ctx context.Context, m *mutant) error {
	sources, err := overlay.Apply(c.root, m.edits())
	if err != nil {
		return fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	p, err := c.load(ctx, path.Dir(m.File))
	if err != nil {
		return err
	}
	changed := map[string]*ast.File{}
	for name, source := range sources {
		if path.Dir(name) != path.Dir(m.File) {
			return fmt.Errorf("mutant %s: %s and %s are of different packages", m.Name, m.File, name)
		}
		file, err := parser.ParseFile(p.files, name, source, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		changed[path.Base(name)] = file
	}
	found := 0
	var files []*ast.File
	for _, name := range p.names {
		if changed[name] != nil {
			files = append(files, changed[name])
			found++
			continue
		}
		files = append(files, p.parsed[name])
	}
	if found < len(changed) {
		return fmt.Errorf("mutant %s: a file of it is not built on this system", m.Name)
	}
	var bad error
	config := types.Config{Importer: p.imports, Error: func(err error) {
		var at types.Error
		if errors.As(err, &at) && bad == nil && sources[p.files.Position(at.Pos).Filename] != nil { // the others have unused imports now
			bad = err
		}
	}}
	_, _ = config.Check(p.path, p.files, files, nil)
	if bad != nil {
		return fmt.Errorf("mutant %s does not compile: %w", m.Name, bad)
	}
	if len(m.Tests) == 0 {
		return fmt.Errorf("mutant %s names no test", m.Name)
	}
	for _, name := range m.Tests {
		t, err := parseTest(name)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		if err := c.testExists(t); err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
	}
	return nil
}

// testExists looks for a test's function in the files of its folder.
func (c *checker) testExists(t test) error {
	names, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(t.folder), "*_test.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains(string(b), "\nfunc "+t.name+"(t *testing.T) {") {
			return nil
		}
	}
	return fmt.Errorf("there is no test %s in %s", t.name, t.folder)
}
