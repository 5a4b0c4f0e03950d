package abuse

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/proto"
)

// badNames are what no topic may be called.
var badNames = []string{"", ".", "..", "../x", "a/b", "/etc/passwd", `a\b`, "a\x00b", "a\nb", "a\r\nb", "a\"b", "a'b", "a b", "a\tb", "\u202Etxt", "\u2028", "{x=\"1\"}",
	"%s%n", "$(id)", "\x1b[31m", "é", "\u0000", strings.Repeat("n", 250), strings.Repeat("n", 1<<20)}

// names are used for topics, as the client's name and version, and in settings.
func (b *broker) names(t *testing.T) {
	before := b.topics(t)
	for _, name := range badNames {
		c := b.dial(t)
		write(t, c, proto.AppendFrame(nil, 9, &proto.CreateTopicRequest{Name: name, Partitions: 1}))
		h, p := answerTo(t, c, 9)
		if e := refusal(p); h.Command != proto.CommandError || e.Code != proto.CodeInvalidName {
			t.Errorf("topic %.20q: answered with %v, %v", name, h.Command, e)
		}
		if len(p) > 2000 {
			t.Errorf("topic %.20q: refused in %d bytes", name, len(p))
		}
		for id, m := range map[uint64]proto.Message{
			10: &proto.MetadataRequest{Selection: proto.TopicSelectionNames, Names: []string{name}},
			11: &proto.CreateTopicRequest{Name: "configured", Partitions: 1, Configs: []proto.TopicConfig{{Key: name, Value: name[:min(len(name), 300)]}}},
			12: &proto.CreateTopicRequest{Name: "configured", Partitions: 1, Configs: []proto.TopicConfig{{Key: "retention.ms", Value: name}}},
			13: &proto.AlterTopicRequest{TopicID: b.topic, Set: []proto.TopicConfig{{Key: "retention.ms", Value: name}}},
		} {
			write(t, c, proto.AppendFrame(nil, id, m))
			h, p := answerTo(t, c, id)
			if id > 10 && (h.Command != proto.CommandError || refusal(p).Code != proto.CodeInvalidConfig) {
				t.Errorf("%.20q in request %d: answered with %v, %v", name, id, h.Command, refusal(p))
			}
			if len(p) > 1<<20+2000 || id > 10 && len(p) > 4000 {
				t.Errorf("%.20q in request %d: answered in %d bytes", name, id, len(p))
			}
		}
		c.Close()
		c = b.raw(t)
		write(t, c, proto.AppendFrame(nil, 1, &proto.HelloRequest{Magic: proto.Magic, ClientName: name, ClientVersion: name}))
		if h, p := answer(t, c); len(name) <= 255 && h.Command != proto.CommandHello || len(name) > 255 && h.Command != proto.CommandError {
			t.Errorf("a client called %.20q: answered with %v, %v", name, h.Command, refusal(p))
		}
		c.Close()
	}
	if after := b.topics(t); !slices.Equal(before, after) {
		t.Errorf("there are topics %q, before %q", after, before)
	}
	b.outside(t)
}

// outside looks for files that are not where they belong.
func (b *broker) outside(t *testing.T) {
	beside, err := os.ReadDir(filepath.Dir(b.data))
	if err != nil || len(beside) != 1 {
		t.Errorf("beside the data folder lies %v, %v", beside, err)
	}
	inside, err := os.ReadDir(b.data)
	if err != nil {
		t.Error(err)
	}
	for _, e := range inside {
		if name := e.Name(); !slices.Contains([]string{"meta", "topics", "LOCK", "quarantine"}, name) && !strings.HasPrefix(name, "layout-") {
			t.Errorf("in the data folder lies %q", name)
		}
	}
}
