// Figures writes what README.md and docs/benchmarks/README.md say of measurements: the figures of the first, and the
// list of folders of the second. Both come from the files that make bench has written, so that neither can drift.
//
//	go run ./tools/figures docs/benchmarks/2026-11
package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "figures: name the folder that make bench has written into, as docs/benchmarks/2026-11")
		os.Exit(2)
	}
	if err := write(".", filepath.ToSlash(filepath.Clean(os.Args[1]))); err != nil {
		fmt.Fprintf(os.Stderr, "figures: %v\n", err)
		os.Exit(1)
	}
}

const (
	readme = "README.md"
	index  = "docs/benchmarks/README.md"
)

// write puts the figures of a folder below root into README.md, and all folders into the list.
func write(root, folder string) error {
	if path.Dir(folder) != path.Dir(index) {
		return fmt.Errorf("%s is no folder of %s", folder, path.Dir(index))
	}
	measured, err := readTable(root, folder)
	if err != nil {
		return err
	}
	text, err := measured.headline(folder)
	if err != nil {
		return err
	}
	list, err := folders(root)
	if err != nil {
		return err
	}
	return errors.Join(replace(filepath.Join(root, readme), "figures", text), replace(filepath.Join(root, index), "folders", list))
}

// folders lists the folders of figures, the newest first.
func folders(root string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(root, path.Dir(index)))
	if err != nil {
		return "", err
	}
	var lines []string
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		folder := path.Join(path.Dir(index), entry.Name())
		measured, err := readTable(root, folder)
		if err != nil {
			return "", err
		}
		line := fmt.Sprintf("- [%s](%s/table.md): %s", entry.Name(), entry.Name(), measured.context())
		if _, err := os.Stat(filepath.Join(root, folder, "peers.md")); err == nil {
			line += fmt.Sprintf("; [beside other brokers](%s/peers.md)", entry.Name())
		}
		if _, err := os.Stat(filepath.Join(root, folder, "README.md")); err == nil {
			line += fmt.Sprintf("; [what was tried](%s/README.md)", entry.Name())
		}
		lines = append([]string{line}, lines...)
	}
	if len(lines) == 0 {
		return "Nothing yet.", nil
	}
	return strings.Join(lines, "\n"), nil
}

// replace puts a text between the two marks of a file.
func replace(file, mark, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, after, err := around(string(old), mark)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(before+text+after), 0o666)
}

// around is what stands before and behind the text between two marks, the marks included.
func around(text, mark string) (before, after string, err error) {
	first, last := "<!-- "+mark+": written by tools/figures -->\n\n", "\n\n<!-- end of "+mark+" -->"
	before, rest, found := strings.Cut(text, first)
	_, after, ended := strings.Cut(rest, last)
	if !found || !ended {
		return "", "", fmt.Errorf("it has no %q with %q behind it", strings.TrimSpace(first), strings.TrimSpace(last))
	}
	return before + first, last + after, nil
}
