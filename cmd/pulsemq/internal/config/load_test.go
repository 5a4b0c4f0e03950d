package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

var testMachine = core.Machine{CPUs: 4, MemoryBytes: 8 * core.GiB, Hostname: "alder"}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pulsemq.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := writeFile(t, `
# keys may be nested
network:
  port: 1
  host: 127.0.0.1
network.keepalive: 5s   # or dotted
admin: {port: 11}
log.level: "warn"
`)
	sources := Sources{File: &file}
	port := func(want int, from string) {
		t.Helper()
		l, faults := Load(sources, testMachine)
		if faults != nil {
			t.Fatal(faults)
		}
		if l.Config.Network.Port != want {
			t.Errorf("network.port is %d, want %d", l.Config.Network.Port, want)
		}
		for _, v := range l.List() {
			if v.Name == "network.port" && v.Source != from {
				t.Errorf("network.port comes from %s, want %s", v.Source, from)
			}
		}
	}
	port(1, file+":4")
	sources.Environ = []string{"PATH=/bin", "PULSEMQ_NETWORK_PORT=2", "PULSEMQ_NETWORK_MAX_CONNECTIONS_PER_IP=7"}
	port(2, "variable PULSEMQ_NETWORK_PORT")
	sources.Sets = []string{"network.port=3", "network.port = 4"}
	port(4, "--set")
	listen, dataDir, admin := "[::1]:5", "/tmp/x=y", "localhost:0"
	sources.Listen = &listen
	port(5, "--listen")

	sources.DataDir, sources.Admin = &dataDir, &admin
	l, faults := Load(sources, testMachine)
	if faults != nil {
		t.Fatal(faults)
	}
	c := l.Config
	got := fmt.Sprintln(c.Network.Host, c.Admin.Host, c.Admin.Port, c.Storage.DataDir, core.FormatDuration(c.Network.Keepalive),
		c.Network.MaxConnectionsPerIP, c.Log.Level)
	if want := fmt.Sprintln("::1", "localhost", 0, "/tmp/x=y", "5s", 7, "WARN"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEveryFaultOfEverySourceAtOnce(t *testing.T) {
	file := writeFile(t, "network:\n  prot: 1\n  port: [1, 2]\n  host:\nstorage.disk: tape\n")
	listen, admin, dataDir := "9090", ":9080", ""
	_, faults := Load(Sources{
		File:    &file,
		Environ: []string{"PULSEMQ_NETWORK_PORTS=1", "PULSEMQ_BROKER_SHARDS=0"},
		Sets:    []string{"retention.ms", "durability.mode=fast"},
		Listen:  &listen,
		Admin:   &admin,
		DataDir: &dataDir,
	}, testMachine)
	want := strings.ReplaceAll(`"network.port" (FILE:3): wants one value, not a list or an alias
"network.host" (FILE:4): has no value
"retention.ms" (--set): wants key=value
"--listen" = "9090": wants HOST:PORT, such as 127.0.0.1:9090 or [::1]:9090; all addresses are 0.0.0.0:9090 or [::]:9090
"--admin" = ":9080": wants HOST:PORT, such as 127.0.0.1:9090 or [::1]:9090; all addresses are 0.0.0.0:9090 or [::]:9090
"network.prot" (FILE:2): no such key; did you mean "network.port"?
"storage.disk" = "tape" (FILE:5): allowed are auto, uring and posix
"broker.shards" = "0" (variable PULSEMQ_BROKER_SHARDS): allowed is 1 to 64, or auto
"network.ports" (variable PULSEMQ_NETWORK_PORTS): no such key; did you mean "network.port"?
"durability.mode" = "fast" (--set): allowed are none, batch and sync
"storage.data-dir" (--data-dir): wants the path of a folder`, "FILE", file)
	if got := faults.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestServiceLinksAreNotSettings(t *testing.T) {
	settings := readEnviron([]string{
		"PULSEMQ_SERVICE_HOST=10.0.0.1", "PULSEMQ_SERVICE_PORT=9090", "PULSEMQ_SERVICE_PORT_CLIENTS=9090", "PULSEMQ_PORT=tcp://10.0.0.1:9090",
		"PULSEMQ_PORT_9090_TCP=tcp://10.0.0.1:9090", "PULSEMQ_PORT_9090_TCP_ADDR=10.0.0.1", "PULSEMQ_ADMIN_PORT=tcp://10.0.0.2:9080",
		"PULSEMQ_ADMIN_SERVICE_HOST=10.0.0.2", "PULSEMQX=1", "PULSECTL_BROKERS=x:1",
	})
	if len(settings) != 0 {
		t.Errorf("got %v", settings)
	}
}

func TestYAML(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"# nothing\n", ""},
		{"a: 010\nb: 1e3\nc: yes\nd: 1_000\ne: \"x y\"\nf: |\n  text\n", "a=010 b=1e3 c=yes d=1_000 e=x y f=text\n"},
		{"a: {b: {c: 1}, d.e: 2}", "a.b.c=1 a.d.e=2"},
		{"a: 1\nb: 2\na: 3", `"a" (f:3): is set twice, also on line 1`},
		{"a: {b: 1}\na.b: 2", `"a.b" (f:2): is set twice, also on line 1`},
		{"a: &x 1\nb: *x", `"b" (f:2): wants one value, not a list or an alias`},
		{"a: &x {b: 1}\nc: {<<: *x}", `"c" (f:2): wants names of keys`},
		{"[1, 2]", `"f" (f:1): wants keys and values, such as network.port: 9090`},
		{"text", `"f" (f:1): wants keys and values, such as network.port: 9090`},
		{"a: ~", `"a" (f:1): has no value`},
		{"[a]: 1", `"" (f:1): wants names of keys`},
		{"a: 1\n---\nb: 2", `"f" (f:2): wants one YAML document, there is more behind the first`},
		{"a: 'b", `"f": not YAML: "yaml: `},
		{"\x00", `"f": not YAML: "yaml: `},
	} {
		settings, faults := readYAML("f", c.text)
		var parts []string
		for _, s := range settings {
			parts = append(parts, s.Key+"="+s.Value)
		}
		got := strings.Join(parts, " ")
		if faults != nil {
			got = faults.Error()
		}
		if got != c.want && (faults == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func FuzzYAML(f *testing.F) {
	f.Add("network:\n  port: 1\nadmin.port: [1]\n")
	f.Add("a: &x {b: *x}\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		settings, faults := readYAML("f", text)
		_, more := core.ParseConfig(settings, testMachine)
		for _, fault := range append(faults, more...) {
			if strings.ContainsFunc(fault.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("a fault breaks its line: %q", fault.Error())
			}
		}
	})
}

func TestFileThatCannotBeRead(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "missing.yaml"), t.TempDir(), writeFile(t, strings.Repeat("#", fileBytesMax+1))} {
		if _, faults := Load(Sources{File: &path}, testMachine); len(faults) != 1 || faults[0].Key != "--config" {
			t.Errorf("%s: %v", path, faults)
		}
	}
}
