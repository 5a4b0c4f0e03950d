package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// combinedSource has functions of every shape that can be switched, and some that cannot.
const combinedSource = `package main

import "fmt"

type box struct{ n int }

const step = 1

func (b *box) add(n int) { b.n += n }

func (b *box) sum(more ...int) (total int, err error) {
	total = b.n
	for _, n := range more { total += n }
	return total, nil
}

func double(n int) int { if n == 0 { return 0 }; return 2 + double(n-1) }

func same[T any](v T) T { return v }

func (*box) name() string { return "box" }

func first(n, _ int) int { return n }

func main() {
	b := &box{n: step}
	b.add(2)
	total, _ := b.sum(1, 1)
	fmt.Println(b.n, total, double(3), same(1), b.name(), first(1, 2))
}
`

// Each mutant does what it does alone when it is chosen, and nothing when it is not.
// What cannot be chosen while a program runs is left to be built alone.
func TestCombinedMutantsAreChosen(t *testing.T) {
	root, folder := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"main.go": combinedSource, "go.mod": "module box\n\ngo 1.24\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &combined{root: root, files: map[string]*combinedFile{}}
	for i, m := range []struct {
		find, put string
		also      []edit
		alone     bool
	}{
		{"b.n += n", "b.n -= n", nil, false},
		{"total += n", "total -= n", nil, false},
		{"return 2 + double", "return 3 + double", nil, false}, // it calls itself
		{"b.n += n", "b.n += 2 * n", []edit{{find: "total = b.n", put: "total = 100"}}, false},
		{"step = 1", "step = 2", nil, true},
		{"{ return v }", "{ var none T; return none }", nil, true},
		{`"box"`, `"no box"`, nil, true},
		{"return n }", "return n + 1 }", nil, true},
		{"b.add(2)", "b.add(3)", nil, true},
		{"double(n int) int {", "double(n int) (r int) {", nil, true},
	} {
		ok, err := c.add(i+1, &mutant{Name: m.find, File: "main.go", Find: m.find, Put: m.put, Also: m.also})
		if err != nil || ok == m.alone {
			t.Errorf("%s: combined %v, %v", m.find, ok, err)
		}
	}
	laid, err := c.write(folder)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "box")
	build := exec.Command("go", "build", "-overlay", laid, "-o", program, ".")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for chosen, want := range map[string]string{
		"":  "3 5 6 1 box 1",
		"0": "3 5 6 1 box 1",
		"1": "-1 1 6 1 box 1",
		"2": "3 1 6 1 box 1",
		"3": "3 5 9 1 box 1",
		"4": "5 102 6 1 box 1",
		"5": "3 5 6 1 box 1", // is not in it
	} {
		command := exec.Command(program)
		command.Env = append(os.Environ(), chosenVariable+"="+chosen)
		out, err := command.Output()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("mutant %q says %q, want %q (%v)", chosen, out, want, err)
		}
	}
}
