// Package overlay lays changed files over the source of the broker for one build, so that a rule can be taken out of it
// without touching the source.
package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Edit changes a text of a file, which holds it exactly once.
type Edit struct {
	File      string // from the root of the repository, with slashes
	Find, Put string
}

// Root is the folder of the broker's module, wherever this runs in it.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/pulsemq/pulsemq").Output()
	if err != nil {
		return "", fmt.Errorf("run this inside the repository: %w", err)
	}
	return filepath.EvalSymlinks(strings.TrimSpace(string(out)))
}

// Apply is the content of each changed file, by its name from the root.
func Apply(root string, edits []Edit) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, e := range edits {
		source, ok := changed[e.File]
		if !ok {
			var err error
			if source, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File))); err != nil {
				return nil, err
			}
		}
		switch n := bytes.Count(source, []byte(e.Find)); {
		case e.Find == e.Put:
			return nil, fmt.Errorf("the edit of %s changes nothing", e.File)
		case n != 1:
			return nil, fmt.Errorf("the text occurs %d times in %s, it must occur exactly once; the source has changed, so find the rule again:\n%s", n, e.File, e.Find)
		}
		changed[e.File] = bytes.Replace(source, []byte(e.Find), []byte(e.Put), 1)
	}
	return changed, nil
}

// Write writes the changed files into a folder, and what -overlay of the go command takes; it returns the latter's name.
func Write(root, folder string, edits []Edit) (string, error) {
	changed, err := Apply(root, edits)
	if err != nil {
		return "", err
	}
	return Lay(root, folder, changed)
}

// Lay is Write for files whose content is known. A file that the source does not have is added to it.
func Lay(root, folder string, changed map[string][]byte) (string, error) {
	replace := map[string]string{}
	for name, source := range changed {
		to := filepath.Join(folder, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(to, source, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(folder, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}
