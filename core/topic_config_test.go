package core

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func topicDefaults() TopicConfig {
	c := DefaultConfig(testMachine)
	return c.TopicDefaults()
}

func TestTopicKeysBindEveryField(t *testing.T) {
	var c TopicConfig
	bound := make(map[any]bool)
	for _, key := range topicKeys {
		bound[key.field(&c)] = true
		if named := strings.HasSuffix(key.Name, "ms"); key.Kind == KindDuration && named != key.Millis {
			t.Errorf("%s: takes plain milliseconds: %v", key.Name, key.Millis)
		}
		if key.Doc == "" {
			t.Errorf("%s has no doc", key.Name)
		}
	}
	v := reflect.ValueOf(&c).Elem()
	if len(bound) != v.NumField() {
		t.Errorf("%d fields are bound, TopicConfig has %d", len(bound), v.NumField())
	}
}

// A topic's default comes from the broker key that its declaration names.
func TestTopicDefaultsComeFromTheirBrokerKeys(t *testing.T) {
	for setting, key := range map[string]string{
		"durability.mode=none": "durability", "durability.flush-ms=7ms": "flush.ms", "durability.flush-bytes=8KiB": "flush.bytes",
		"retention.ms=9d": "retention.ms", "retention.bytes=10GiB": "retention.bytes", "storage.segment-size=11MiB": "segment.bytes",
		"storage.segment-ms=12d": "segment.ms", "producer.max-batch-bytes=13KiB": "max.message.bytes",
		"topics.timestamp-type=append": "message.timestamp.type", "topics.timestamp-ahead-max=14m": "message.timestamp.ahead.max.ms",
		"topics.validate-compressed=true": "compression.validate",
	} {
		brokerKey, value, _ := strings.Cut(setting, "=")
		c, faults := ParseConfig([]Setting{{Key: brokerKey, Value: value}}, testMachine)
		if faults != nil {
			t.Fatal(faults)
		}
		found := false
		for i, entry := range c.TopicDefaults().List(nil) {
			if entry.Name == key {
				found = true
				if topicKeys[i].Broker != brokerKey || entry.Value != value || entry.Source != SourceDefault {
					t.Errorf("%s: listed as %+v, declared with default %s", setting, entry, topicKeys[i].Broker)
				}
			}
		}
		if !found {
			t.Errorf("no topic key %s", key)
		}
	}
	for _, key := range topicKeys {
		if key.Broker == "" {
			continue
		}
		if at := keyIndex(key.Broker); at < 0 || keys[at].Kind != key.Kind || keys[at].Min != key.Min || keys[at].Max != key.Max {
			t.Errorf("%s: its broker key %s is missing or allows other values", key.Name, key.Broker)
		}
	}
}

func TestParseTopicConfig(t *testing.T) {
	given := map[string]string{"retention.ms": "60000", "segment.bytes": "16777216", "flush.ms": "5ms", "cleanup.policy": "compact",
		"retention.bytes": "unlimited", "durability": "batch", "max.message.bytes": "64KB"}
	c, faults := ParseTopicConfig(given, topicDefaults())
	if faults != nil {
		t.Fatal(faults)
	}
	want := topicDefaults()
	want.RetentionTime, want.SegmentBytes, want.FlushTime, want.Cleanup = time.Minute, 16*MiB, 5*time.Millisecond, CleanupCompact
	want.RetentionBytes, want.Durability, want.MessageBytesMax = SizeUnlimited, DurabilityBatch, 64*KiB
	if c != want {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
	for _, entry := range c.List(given) {
		if _, own := given[entry.Name]; own != (entry.Source == SourceTopic) {
			t.Errorf("listed as %+v", entry)
		}
		if entry.Name == "retention.ms" && entry.Value != "1m" {
			t.Errorf("listed as %+v", entry)
		}
	}
}

func TestParseTopicConfigReportsEveryFaultAtOnce(t *testing.T) {
	_, faults := ParseTopicConfig(map[string]string{
		"retention.msec": "1", "retention.ms": "0", "segment.bytes": "12", "cleanup.policy": "shrink", "durability": "\n",
	}, topicDefaults())
	want := `"cleanup.policy" = "shrink": allowed are delete and compact
"durability" = "\n": allowed are none, batch and sync
"retention.ms" = "0": allowed is 1s to 3650d, or unlimited
"retention.msec": no such topic key; did you mean "retention.ms"?
"segment.bytes" = "12": allowed is 1MiB to 16GiB`
	if got := faults.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParseTopicConfigSegmentHoldsLargestBatch(t *testing.T) {
	_, faults := ParseTopicConfig(map[string]string{"segment.bytes": "1MB"}, topicDefaults())
	if len(faults) != 1 || faults[0].Key != "segment.bytes" || !strings.Contains(faults[0].Problem, "at least 1040KiB") {
		t.Errorf("got %v", faults)
	}
}

func TestParseTopicConfigKeepsBrokerLimit(t *testing.T) {
	if _, faults := ParseTopicConfig(map[string]string{"max.message.bytes": "1MB"}, topicDefaults()); faults != nil {
		t.Error(faults)
	}
	_, faults := ParseTopicConfig(map[string]string{"max.message.bytes": "1048577"}, topicDefaults())
	if len(faults) != 1 || faults[0].Key != "max.message.bytes" || !strings.Contains(faults[0].Problem, "(1MiB)") {
		t.Errorf("got %v", faults)
	}
}

func TestTopicNames(t *testing.T) {
	for _, name := range []string{"a", "orders", "orders.eu-1_x", "...", "_a", strings.Repeat("a", TopicNameBytesMax)} {
		if problem := TopicNameProblem(name); problem != "" {
			t.Errorf("%q: %s", name, problem)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "a\x00b", "a b", "a\n", `a"`, "\u202eabc", "ä", "__groups", "__",
		strings.Repeat("a", TopicNameBytesMax+1), strings.Repeat("\xff", 1<<20)} {
		problem := TopicNameProblem(name)
		if problem == "" {
			t.Errorf("%q is accepted", name)
		}
		if len(problem) > 512 || strings.ContainsFunc(problem, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("a problem must be short and printable, got %q", problem)
		}
	}
}
