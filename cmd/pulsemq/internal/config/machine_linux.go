package config

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

func memoryBytes() (core.Size, error) { return memoryBytesOf(os.DirFS("/")) }

// memoryBytesOf is the machine's memory, or the least limit of the control groups
// that this process is in. root holds /proc and /sys.
func memoryBytesOf(root fs.FS) (core.Size, error) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	var memory core.Size
	for line := range strings.Lines(string(text)) {
		// MemTotal:       16314208 kB
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			if memory, err = core.ParseSize(fields[1] + fields[2]); err != nil {
				return 0, fmt.Errorf("read the machine's memory from %q: %w", line, err)
			}
		}
	}
	if memory == 0 {
		return 0, fmt.Errorf("read the machine's memory: /proc/meminfo names no MemTotal")
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return memory, nil // a kernel without control groups
	}
	for line := range strings.Lines(string(groups)) {
		// 0::/system.slice/pulsemq.service       version 2
		// 9:memory:/docker/0123456789ab          version 1
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case fields[0] == "0" && fields[1] == "":
			memory = min(memory, groupLimit(root, "sys/fs/cgroup", fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			memory = min(memory, groupLimit(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return memory, nil
}

// groupLimit is the least limit from the group up to the root: each bounds what is
// below it. Inside a container the lower folders may not be visible.
func groupLimit(root fs.FS, mount, group, file string) core.Size {
	limit := core.SizeUnlimited
	for {
		if text, err := fs.ReadFile(root, path.Join(mount, group, file)); err == nil {
			// "max" is no limit, and version 1 writes a number near 2^63.
			if bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bytes > 0 {
				limit = min(limit, core.Size(bytes))
			}
		}
		if group == "/" || group == "." || group == "" {
			return limit
		}
		group = path.Dir(group)
	}
}
