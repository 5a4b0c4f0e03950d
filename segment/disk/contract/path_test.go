package contract

import (
	"errors"
	"strings"
	"testing"
)

func TestPath(t *testing.T) {
	for _, c := range []struct {
		path, want string
		file       bool // allowed as a file's path
	}{
		{"", ".", false}, {".", ".", false}, {"a", "a", true}, {"a/b-1.log", "a/b-1.log", true}, {"...", "...", true},
	} {
		if got, err := Path(c.path); err != nil || got != c.want {
			t.Errorf("Path(%q) = %q, %v", c.path, got, err)
		}
		if got, err := FilePath(c.path); (err == nil) != c.file || (c.file && got != c.want) {
			t.Errorf("FilePath(%q) = %q, %v", c.path, got, err)
		}
	}
	for _, path := range []string{"..", "/", "/a", "a/", "a//b", "a/../b", "./a", "a/.", "a\x00", "a\\b", "\xff"} {
		_, err := Path(path)
		if !errors.Is(err, ErrPath) {
			t.Errorf("Path(%q): %v", path, err)
		} else if strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("Path(%q): the error is not one clean line: %v", path, err)
		}
	}
}
