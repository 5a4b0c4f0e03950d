package config

import (
	"testing"
	"testing/fstest"

	"github.com/pulsemq/pulsemq/core"
)

func TestMemoryIsTheLeastLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		root fstest.MapFS
		want core.Size
	}{
		"no control groups": {fstest.MapFS{}, 4 * core.GiB},
		"version 2": {fstest.MapFS{
			"proc/self/cgroup":                           file("0::/a.slice/b.service\n"),
			"sys/fs/cgroup/a.slice/memory.max":           file("1073741824\n"),
			"sys/fs/cgroup/a.slice/b.service/memory.max": file("max\n"),
		}, core.GiB},
		"version 2 in a container": {fstest.MapFS{
			"proc/self/cgroup":         file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("536870912\n"),
		}, 512 * core.MiB},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup":                                    file("9:cpu,cpuacct:/x\n8:memory:/docker/1\n0::/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          file("9223372036854771712\n"),
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": file("268435456\n"),
		}, 256 * core.MiB},
		"a limit above the machine": {fstest.MapFS{
			"proc/self/cgroup":         file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("99999999999999\n"),
		}, 4 * core.GiB},
		"nonsense": {fstest.MapFS{
			"proc/self/cgroup":         file("x\n\n0::\n"),
			"sys/fs/cgroup/memory.max": file("-5\n"),
		}, 4 * core.GiB},
	} {
		c.root["proc/meminfo"] = file("MemFree:          100 kB\nMemTotal:        4194304 kB\nHugePages_Total:       0\n")
		if got, err := memoryBytesOf(c.root); err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
	if _, err := memoryBytesOf(fstest.MapFS{"proc/meminfo": file("x\n")}); err == nil {
		t.Error("a meminfo without MemTotal is accepted")
	}
	if machine, err := Machine(); err != nil || machine.CPUs < 1 || machine.MemoryBytes < core.MiB {
		t.Errorf("this machine is %+v, %v", machine, err)
	}
}
