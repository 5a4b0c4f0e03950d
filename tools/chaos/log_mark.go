package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// logMark is a place in the broker's log: what stands behind it was logged later.
type logMark struct {
	file string
	from int64
}

func (p *plan) markLog() (logMark, error) {
	m := logMark{file: filepath.Join(p.folder, "broker.log")}
	info, err := os.Stat(m.file)
	if err == nil {
		m.from = info.Size()
	}
	return m, err
}

// lines are the whole lines that were logged since.
func (m logMark) lines() ([]string, error) {
	file, err := os.Open(m.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, m.from, 1<<40))
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}

// errors are the lines of severity error.
func (m logMark) errors() (found []string, err error) {
	lines, err := m.lines()
	for _, line := range lines {
		if strings.Contains(line, `"level":"ERROR"`) {
			found = append(found, line)
		}
	}
	return found, err
}
