package core

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

var testMachine = Machine{CPUs: 8, MemoryBytes: 16 * GiB, Hostname: "alder"}

// Every field of Config is bound to exactly one key, so that no choice exists
// that cannot be configured, printed and documented.
func TestKeysBindEveryField(t *testing.T) {
	var c Config
	bound := make(map[any]string)
	for _, key := range keys {
		field := key.field(&c)
		if other, twice := bound[field]; twice {
			t.Errorf("%s and %s are bound to the same field", key.Name, other)
		}
		bound[field] = key.Name
	}
	groups := reflect.ValueOf(&c).Elem()
	for g := range groups.NumField() {
		for f := range groups.Field(g).NumField() {
			if _, ok := bound[groups.Field(g).Field(f).Addr().Interface()]; !ok {
				t.Errorf("no key is bound to Config.%s.%s", groups.Type().Field(g).Name, groups.Field(g).Type().Field(f).Name)
			}
		}
	}
}

func TestKeysAreDeclaredWell(t *testing.T) {
	names, envs := make(map[string]bool), make(map[string]bool)
	for _, key := range keys {
		if names[key.Name] || envs[key.Env()] {
			t.Errorf("%s: its name or its variable %s is declared twice", key.Name, key.Env())
		}
		names[key.Name], envs[key.Env()] = true, true
		if key.Doc == "" || !strings.HasSuffix(key.Doc, ".") {
			t.Errorf("%s: wants a doc of full sentences", key.Name)
		}
		var c Config
		v, err := key.parse(key.Default)
		if err != nil {
			t.Fatalf("%s: default %q: %v", key.Name, key.Default, err)
		}
		store(key.field(&c), v)
		if again, err := key.parse(key.format(load(key.field(&c)))); err != nil || again != v {
			t.Errorf("%s: default %q is stored and printed as %q", key.Name, key.Default, key.format(load(key.field(&c))))
		}
		if key.format(v) != key.Default {
			t.Errorf("%s: default is spelled %q, printed as %q", key.Name, key.Default, key.format(v))
		}
		if named := strings.HasSuffix(key.Name, "ms"); key.Kind == KindDuration && named != key.Millis {
			t.Errorf("%s: takes plain milliseconds: %v", key.Name, key.Millis)
		}
		if key.Auto && key.Kind != KindText && key.Min == 0 {
			t.Errorf("%s: auto is held as zero, so zero cannot be a value", key.Name)
		}
	}
}

// The words of each choice are held by the typed constants at the same places.
func TestChoicesMatchTheirConstants(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{DurabilitySync.String(), "sync"}, {DurabilityBatch.String(), "batch"}, {DurabilityNone.String(), "none"},
		{DiskAuto.String(), "auto"}, {DiskUring.String(), "uring"}, {DiskPosix.String(), "posix"},
		{CleanupDelete.String(), "delete"}, {CleanupCompact.String(), "compact"},
		{TimestampCreate.String(), "create"}, {TimestampAppend.String(), "append"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for _, level := range []string{"DEBUG", "INFO", "WARN", "ERROR"} {
		c, faults := ParseConfig([]Setting{{Key: "log.level", Value: strings.ToLower(level)}}, testMachine)
		if faults != nil || c.Log.Level.String() != level {
			t.Errorf("log.level %s became %v, faults %v", level, c.Log.Level, faults)
		}
	}
}

func TestDefaultsAreValidOnEveryMachine(t *testing.T) {
	for _, cpus := range []int{1, 2, 3, 4, 16, 63, 64, 256, 1024} {
		for _, memory := range []Size{1, 64 * MiB, 256 * MiB, 513 * MiB, GiB, 2 * GiB, 64 * GiB, 4 * TiB} {
			c := DefaultConfig(Machine{CPUs: cpus, MemoryBytes: memory, Hostname: "h"})
			if faults := c.Validate(); faults != nil {
				t.Errorf("%d processors, %v: %v", cpus, memory, faults)
			}
			if c.Broker.Shards < 1 || c.Broker.Reactors < 1 {
				t.Errorf("%d processors: %d shards, %d reactors", cpus, c.Broker.Shards, c.Broker.Reactors)
			}
		}
	}
	c := DefaultConfig(testMachine)
	if c.Broker.Shards != 4 || c.Broker.Reactors != 4 || c.Memory.Limit != 8*GiB || c.Storage.TailCache != 512*MiB {
		t.Errorf("8 processors, 16 GiB: %+v %+v %v", c.Broker, c.Memory, c.Storage.TailCache)
	}
}

func TestParseConfigLaterSettingsWin(t *testing.T) {
	settings := []Setting{
		{"network.port", "1", "a.yaml:1"},
		{"storage.segment-size", "1GB", "a.yaml:2"},
		{"network.port", "2", "PULSEMQ_NETWORK_PORT"},
		{"network.port", "3", "--set"},
	}
	c, faults := ParseConfig(settings, testMachine)
	if faults != nil {
		t.Fatal(faults)
	}
	if c.Network.Port != 3 || c.Network.AdvertisedPort != 3 || c.Storage.SegmentSize != GiB {
		t.Errorf("got %+v %v", c.Network, c.Storage.SegmentSize)
	}
	for _, v := range c.List(settings) {
		switch v.Name {
		case "network.port":
			if v.Value != "3" || v.Source != "--set" {
				t.Errorf("listed as %+v", v)
			}
		case "storage.segment-size":
			if v.Value != "1GiB" || v.Source != "a.yaml:2" {
				t.Errorf("listed as %+v", v)
			}
		case "network.host":
			if v.Source != "default" {
				t.Errorf("listed as %+v", v)
			}
		}
	}
}

func TestParseConfigReportsEveryFaultAtOnce(t *testing.T) {
	_, faults := ParseConfig([]Setting{
		{"network.prot", "1", "a.yaml:1"},
		{"network.port", "70000", "a.yaml:2"},
		{"durability.mode", "fsync", "a.yaml:3"},
		{"storage.segment-size", "0", "a.yaml:4"},
		{"retention.bytes", "0", "a.yaml:5"},
		{"network.idle-timeout", "-1s", "a.yaml:6"},
		{"broker.shards", "0", "a.yaml:7"},
		{"network.host", "no such host", "a.yaml:8"},
		{"topics.auto-create", "yes", "a.yaml:9"},
		{"storage.tail-cache", "auto ", "a.yaml:10"},
		{"storage.journal-size", "32MB", "a.yaml:11"},
	}, testMachine)
	wants := []string{
		`"network.prot" (a.yaml:1): no such key; did you mean "network.port"?`,
		`"network.port" = "70000" (a.yaml:2): allowed is 0 to 65535`,
		`"durability.mode" = "fsync" (a.yaml:3): allowed are none, batch and sync`,
		`"storage.segment-size" = "0" (a.yaml:4): allowed is 1MiB to 16GiB`,
		`"retention.bytes" = "0" (a.yaml:5): allowed is 1MiB to 1024TiB, or unlimited`,
		`"network.idle-timeout" = "-1s" (a.yaml:6): not a duration`,
		`"broker.shards" = "0" (a.yaml:7): allowed is 1 to 64, or auto`,
		`"network.host" = "no such host" (a.yaml:8): allowed are an IPv4 address`,
		`"topics.auto-create" = "yes" (a.yaml:9): allowed are true and false`,
		`"storage.journal-size" = "32MiB" (a.yaml:11): must hold at least 4 files`,
	}
	if len(faults) != len(wants) {
		t.Errorf("got %d faults, want %d:\n%v", len(faults), len(wants), faults)
	}
	for i, want := range wants {
		if i < len(faults) && !strings.HasPrefix(faults[i].Error(), want) {
			t.Errorf("fault %d:\n got %s\nwant %s", i, faults[i].Error(), want)
		}
	}
}

func TestRelationsNameDeclaredKeys(t *testing.T) {
	for _, r := range relations {
		for _, name := range append([]string{r.Key}, r.With...) {
			if keyIndex(name) < 0 {
				t.Errorf("relation of %s names %s, which is no key", r.Key, name)
			}
		}
	}
}

func TestRelations(t *testing.T) {
	for _, c := range []struct {
		settings string // key=value, separated by spaces
		key      string // at fault, or "" when all is well
	}{
		{"memory.limit=128MB broker.shards=1 broker.reactors=1", ""},
		{"memory.limit=128MB broker.shards=8", "memory.limit"},
		{"memory.limit=128MB", ""}, // threads are automatic and adapt
		{"broker.shards=64 broker.reactors=64", ""},
		{"memory.limit=1GB storage.tail-cache=65MB", "storage.tail-cache"},
		{"memory.limit=1GB storage.tail-cache=64MB", ""},
		{"network.port=9080", "admin.port"},
		{"network.port=9080 admin.host=127.0.0.2", ""},
		{"network.port=9080 admin.host=0.0.0.0", "admin.port"},
		{"network.port=0 admin.port=0", ""},
		{"network.max-connections=10 network.max-connections-per-ip=11", "network.max-connections-per-ip"},
		{"network.max-connections=10 network.max-connections-per-ip=unlimited", ""},
		{"network.keepalive=1m", "network.idle-timeout"},
		{"storage.segment-size=1MB", "storage.segment-size"},
		{"storage.segment-size=1MB producer.max-batch-bytes=512KB", ""},
		{"storage.journal-file-size=4100KB", "storage.journal-file-size"},
		{"storage.journal-file-size=256MB", "storage.journal-size"},
		// One mistake is one fault: no relation is checked with a value that was not understood.
		{"storage.journal-file-size=tiny storage.journal-size=16MB", "storage.journal-file-size"},
	} {
		var settings []Setting
		for _, field := range strings.Fields(c.settings) {
			key, value, _ := strings.Cut(field, "=")
			settings = append(settings, Setting{key, value, "test"})
		}
		_, faults := ParseConfig(settings, testMachine)
		switch {
		case c.key == "" && faults != nil:
			t.Errorf("%s: %v", c.settings, faults)
		case c.key != "" && (len(faults) != 1 || faults[0].Key != c.key):
			t.Errorf("%s: want one fault of %s, got %v", c.settings, c.key, faults)
		}
	}
}

func TestAdvertisedAddress(t *testing.T) {
	for _, c := range []struct{ host, advertised, want string }{
		{"10.0.0.1", "auto", "10.0.0.1"},
		{"0.0.0.0", "auto", "alder"},
		{"::", "auto", "alder"},
		{"0.0.0.0", "broker-1.example.com", "broker-1.example.com"},
	} {
		config, faults := ParseConfig([]Setting{{"network.host", c.host, ""}, {"network.advertised-host", c.advertised, ""}}, testMachine)
		if faults != nil || config.Network.AdvertisedHost != c.want {
			t.Errorf("%s advertised as %q, faults %v", c.host, config.Network.AdvertisedHost, faults)
		}
	}
}

func TestValidateConfigBuiltInCode(t *testing.T) {
	c := DefaultConfig(testMachine)
	c.Network.Port = -1
	c.Durability.Mode = 9
	c.Storage.SegmentSize = 0
	c.Network.HandshakeTimeout = time.Hour
	faults := c.Validate()
	var got []string
	for _, f := range faults {
		got = append(got, f.Key)
	}
	want := "network.port network.handshake-timeout storage.segment-size durability.mode storage.segment-size"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestHosts(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1", "::", "fe80::1%eth0", "localhost", "broker-1.example.com", "broker.example.com.", "a_b"} {
		if problem := hostProblem(host); problem != "" {
			t.Errorf("%q: %s", host, problem)
		}
	}
	for _, host := range []string{"", "[::1]", "1.2.3", "256.0.0.1", "a b", "a..b", "-a", "a-", "ä.example", "a/b", "a:9090", strings.Repeat("a", 64)} {
		if hostProblem(host) == "" {
			t.Errorf("%q is accepted", host)
		}
	}
}
