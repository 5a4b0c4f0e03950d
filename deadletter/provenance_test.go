package deadletter

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

func header(key, value string) proto.Header {
	return proto.Header{Key: []byte(key), Value: []byte(value)}
}

var sample = Provenance{
	Topic: "orders", Partition: 3, Offset: 812, Timestamp: 1_700_000_000_123, Group: "billing", Attempts: 5,
	Reason: "rejected", Text: "no such: customer",
}

func TestProvenanceReplacesOlderHeaders(t *testing.T) {
	own := []proto.Header{header("a", "1"), {Key: []byte("a")}, header("a", ""), header("mq", "theirs"), header("MQ-TOPIC", "theirs"), header("", "\xff\xfe")}
	mixed := []proto.Header{header("mq-topic", "old"), own[0], own[1], header("mq-reason", "old"), own[2], own[3], header("mq-offset", "1"), header("mq-x", "1"), own[4], own[5], header("mq-topic", "older")}
	got := sample.AppendHeaders(nil, mixed)
	if !reflect.DeepEqual(got[:len(own)], own) {
		t.Errorf("its own headers became %q", got[:len(own)])
	}
	want := []proto.Header{
		header("mq-topic", "orders"), header("mq-partition", "3"), header("mq-offset", "812"), header("mq-timestamp", "1700000000123"),
		header("mq-group", "billing"), header("mq-attempts", "5"), header("mq-reason", "rejected: no such: customer"),
	}
	if !reflect.DeepEqual(got[len(own):], want) {
		t.Errorf("provenance %q", got[len(own):])
	}
	if p, err := ParseProvenance(got); err != nil || p != sample {
		t.Errorf("read back as %+v, %v", p, err)
	}
	if back := AppendOwn(nil, got); !reflect.DeepEqual(back, own) {
		t.Errorf("its own headers come back as %q", back)
	}
}

func TestProvenanceWithoutText(t *testing.T) {
	p := sample
	p.Text, p.Group = "", ""
	if back, err := ParseProvenance(p.AppendHeaders(nil, nil)); err != nil || back != p {
		t.Errorf("read back as %+v, %v", back, err)
	}
}

func TestForeignRecordsAreNoDeadLetters(t *testing.T) {
	for what, c := range map[string]struct {
		change func([]proto.Header) []proto.Header
		says   string
	}{
		"nothing":    {func([]proto.Header) []proto.Header { return nil }, "mq-topic is missing"},
		"one less":   {func(h []proto.Header) []proto.Header { return h[:6] }, "mq-reason is missing"},
		"twice":      {func(h []proto.Header) []proto.Header { return append(h, h[4]) }, "mq-group is there twice"},
		"no number":  {func(h []proto.Header) []proto.Header { h[2].Value = []byte("x"); return h }, "mq-offset is not a number"},
		"negative":   {func(h []proto.Header) []proto.Header { h[2].Value = []byte("-1"); return h }, "mq-offset is not a number"},
		"partition":  {func(h []proto.Header) []proto.Header { h[1].Value = []byte("4294967296"); return h }, "mq-partition is not a number"},
		"null value": {func(h []proto.Header) []proto.Header { h[5].Value = nil; return h }, "mq-attempts is not a number"},
	} {
		_, err := ParseProvenance(c.change(sample.AppendHeaders(nil, nil)))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
