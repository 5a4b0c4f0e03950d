package report

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cpuModel is what the kernel calls the processor; empty when it does not say, as on many ARM machines.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func memoryBytes() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

func kernel() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

// fileSystem names the file system of a folder and what it is on: "ext4 on /dev/vda1". It is empty when that cannot be
// known.
func fileSystem(folder string) string {
	if folder == "" {
		return ""
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return mountOf(mounts, folder)
}

// mountOf finds the mount that a folder lies on: the last of those with the longest mount point.
//
//	36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/vda1 rw
func mountOf(mountinfo []byte, folder string) string {
	var longest int
	var found string
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	for lines.Scan() {
		left, right, ok := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(kind) < 2 {
			continue
		}
		point := strings.ReplaceAll(fields[4], `\040`, " ")
		inside := folder == point || point == "/" || strings.HasPrefix(folder, point+"/")
		if inside && len(point) >= longest {
			longest, found = len(point), kind[0]+" on "+kind[1]
		}
	}
	return found
}
