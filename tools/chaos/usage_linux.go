package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// residentBytes is the physical memory that the broker has: now, and the most that it ever had.
func (b *broker) residentBytes() (now, peak int64, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(b.PID()), "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		var kilobytes int64
		if name == "VmRSS" || name == "VmHWM" {
			if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%d kB", &kilobytes); err != nil {
				return 0, 0, err
			}
		}
		switch name {
		case "VmRSS":
			now = kilobytes << 10
		case "VmHWM":
			peak = kilobytes << 10
		}
	}
	return now, peak, nil
}

// descriptors is how many files and sockets the broker has open.
func (b *broker) descriptors() (int, error) {
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(b.PID()), "fd"))
	return len(entries), err
}
