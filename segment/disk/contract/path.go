package contract

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrPath reports a path that may not be used in a data folder.
var ErrPath = errors.New("path is not allowed in a data folder")

// Path checks a path relative to a data folder and returns it in the form that
// the os package wants. The data folder itself is "" or ".".
func Path(path string) (string, error) {
	if path == "" {
		return ".", nil
	}
	if !fs.ValidPath(path) || strings.ContainsAny(path, "\x00\\") {
		return "", fmt.Errorf("%w: %q (allowed are names joined by '/', without '..', empty names, '\\' and NUL)", ErrPath, path)
	}
	return path, nil
}

// FilePath is Path for something that cannot be the data folder itself.
func FilePath(path string) (string, error) {
	clean, err := Path(path)
	if err == nil && clean == "." {
		err = fmt.Errorf("%w: %q names the data folder itself", ErrPath, path)
	}
	return clean, err
}
