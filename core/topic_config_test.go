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
	// The fields of Queue are keys of their own.
	if fields := reflect.TypeFor[TopicConfig]().NumField() - 1 + reflect.TypeFor[QueueConfig]().NumField(); len(bound) != fields {
		t.Errorf("%d fields are bound, TopicConfig has %d", len(bound), fields)
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

func TestQueueSettings(t *testing.T) {
	given := map[string]string{"queue.window.max": "7", "queue.ack.timeout.ms": "2500", "queue.max.deliveries": "unlimited",
		"queue.backoff.ms": "100, 2s,1m,1m", "queue.attempts": "relaxed", "dead.letter.topic": "orders.dead"}
	c, faults := ParseTopicConfig(given, topicDefaults())
	if faults != nil {
		t.Fatal(faults)
	}
	q := c.Queue
	if q.WindowMax != 7 || q.AckTimeout != 2500*time.Millisecond || q.DeliveriesMax != CountUnlimited ||
		q.Attempts != QueueAttemptsRelaxed || q.DeadLetterTopic != "orders.dead" {
		t.Errorf("got %+v", q)
	}
	for attempts, want := range map[int]time.Duration{0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 2 * time.Second,
		3: time.Minute, 4: time.Minute, BackoffStepsMax: time.Minute, 1 << 31: time.Minute} {
		if got := q.Backoff.After(attempts); got != want {
			t.Errorf("after %d attempts: %v, want %v", attempts, got, want)
		}
	}
	if text := q.Backoff.String(); text != "100ms,2s,1m" {
		t.Errorf("written as %s", text)
	}
	if d := topicDefaults().Queue; d.WindowMax != 10_000 || d.AckTimeout != 30*time.Second || d.DeliveriesMax != 5 || d.Backoff != (Backoff{}) ||
		d.Attempts != QueueAttemptsDurable || d.DeadLetterTopic != "" || d.Backoff.String() != "0s" {
		t.Errorf("defaults %+v", d)
	}
}

func TestQueueSettingsAreBounded(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("1s,", BackoffStepsMax+1), ",")
	for given, says := range map[string]string{
		"queue.window.max=0": "1 to 100000", "queue.window.max=100001": "1 to 100000", "queue.ack.timeout.ms=99": "100ms to 1d",
		"queue.ack.timeout.ms=25h": "100ms to 1d", "queue.max.deliveries=0": "1 to 10000, or unlimited", "queue.max.deliveries=-1": "1 to 10000",
		"queue.backoff.ms=": "1 to 16 durations", "queue.backoff.ms=1s,": "1 to 16 durations", "queue.backoff.ms=8d": "each 0s to 7d",
		"queue.backoff.ms=1s,8d,1s": "each 0s to 7d", "queue.backoff.ms=" + long: "1 to 16 durations", "queue.backoff.ms=1s;2s": "not a duration",
		"queue.attempts=loose": "durable and relaxed", "dead.letter.topic=a/b": "allowed are", "dead.letter.topic=__groups": "reserved",
	} {
		key, value, _ := strings.Cut(given, "=")
		_, faults := ParseTopicConfig(map[string]string{key: value}, topicDefaults())
		if len(faults) != 1 || faults[0].Key != key || !strings.Contains(faults[0].Problem, says) {
			t.Errorf("%s: %v", given, faults)
		}
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
