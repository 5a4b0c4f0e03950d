package house

import (
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
)

// executable are the first bytes of programs: ELF, Mach-O, and its fat form.
var executable = [][]byte{{0x7f, 'E', 'L', 'F'}, {0xcf, 0xfa, 0xed, 0xfe}, {0xca, 0xfe, 0xba, 0xbe}}

// A program that go build left beside its source is easily committed, and then
// stays in the history for good.
func TestNoProgramLiesInTheTree(t *testing.T) {
	for _, name := range files(t, "") {
		if path.Ext(name) == ".test" {
			continue // left by go test -c, and ignored by git
		}
		file, err := os.Open(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 4)
		_, err = io.ReadFull(file, head)
		file.Close()
		if err == nil && slices.ContainsFunc(executable, func(magic []byte) bool { return bytes.Equal(magic, head) }) {
			t.Errorf("%s is a built program: remove it", name)
		}
	}
}
