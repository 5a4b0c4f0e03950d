package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/host"
	"github.com/pulsemq/pulsemq/tools/process"
)

// startBroker builds and starts a broker: no fake keeps groups.
func startBroker(t *testing.T) *host.Server {
	t.Helper()
	folder := t.TempDir()
	if err := process.Build(folder, "pulsemq"); err != nil {
		t.Fatal(err)
	}
	broker, err := host.StartBroker(filepath.Join(folder, "pulsemq"), folder, "--set", "storage.journal-size=64MiB", "--set", "storage.journal-file-size=16MiB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Destroy)
	return broker
}

func TestMembersOfAGroupReadEverythingOnce(t *testing.T) {
	broker := startBroker(t)
	shared := []string{"--sdk", "--brokers", broker.Address, "--topic", "t", "--partitions", "5", "--record-size", "64", "--group", "g", "--json", "-"}
	for _, c := range []struct {
		args []string
		want int64
	}{
		{[]string{"consume", "--consumers", "3", "--records", "3000"}, 3000},
		{[]string{"consume", "--consumers", "7"}, 3000}, // from the start again, with members that get nothing
		{[]string{"e2e", "--consumers", "2", "--records", "500"}, 500},
	} {
		code, stdout, stderr := call(t, append(c.args, shared...)...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d: %s", c.args, code, stderr)
		}
		if o := resultOf(t, stdout); o.Records != c.want || o.Latency == nil || !strings.Contains(stderr, "members of group g") {
			t.Errorf("%v: %+v, want %d records\n%s", c.args, o, c.want, stderr)
		}
	}
}

func TestMembersOfAQueueGroupAcknowledgeEverythingOnce(t *testing.T) {
	broker := startBroker(t)
	shared := []string{"--sdk", "--brokers", broker.Address, "--topic", "t", "--partitions", "3", "--record-size", "64", "--queue", "q", "--json", "-"}
	for _, c := range []struct {
		args []string
		want int64
	}{
		{[]string{"consume", "--consumers", "4", "--prefetch", "16", "--records", "1000"}, 1000},
		{[]string{"consume", "--consumers", "2", "--prefetch", "100"}, 1000}, // from the start again
		{[]string{"e2e", "--consumers", "2", "--records", "300"}, 300},
	} {
		code, stdout, stderr := call(t, append(c.args, shared...)...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d: %s", c.args, code, stderr)
		}
		if o := resultOf(t, stdout); o.Records != c.want || o.Latency == nil || !strings.Contains(stderr, "members of queue group q") {
			t.Errorf("%v: %+v, want %d records\n%s", c.args, o, c.want, stderr)
		}
	}
}
