package report

import "golang.org/x/sys/unix"

func cpuModel() string {
	model, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return model
}

func memoryBytes() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}

func kernel() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

// fileSystem names the file system of a folder; empty when that cannot be known.
func fileSystem(folder string) string {
	var stat unix.Statfs_t
	if folder == "" || unix.Statfs(folder, &stat) != nil {
		return ""
	}
	return unix.ByteSliceToString(stat.Fstypename[:]) + " on " + unix.ByteSliceToString(stat.Mntfromname[:])
}
