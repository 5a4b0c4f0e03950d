package house

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository's folder as seen from this package.
const root = "../.."

// skipped are folders that hold nothing of ours.
var skipped = map[string]bool{".git": true, "bin": true, "data": true, "node_modules": true, "testdata": true, "target": true}

// files returns the slash-separated paths of all files whose name ends in suffix.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && skipped[entry.Name()]:
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasSuffix(entry.Name(), suffix):
			relative, err := filepath.Rel(root, name)
			found = append(found, filepath.ToSlash(relative))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exists reports whether the repository has a file or folder of that name.
func exists(name string) bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path.Clean(name))))
	return err == nil
}
