package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func TestMoment(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-30T12:00:00Z":      now.Add(-24 * time.Hour),
		"2026-01-31T13:00:00+02:00": now.Add(-time.Hour),
		"-1h":                       now.Add(-time.Hour),
		"-1h30m":                    now.Add(-90 * time.Minute),
		"-7d":                       now.Add(-7 * 24 * time.Hour),
		"0":                         time.UnixMilli(0),
		"1700000000123":             time.UnixMilli(1700000000123),
	} {
		got, err := parseMoment("--at", text, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "1h", "-", "-5", "2026-01-31"} {
		if _, err := parseMoment("--at", text, now); !errors.As(err, &usageError{}) {
			t.Errorf("%q: %v, want a usage error", text, err)
		}
	}
}

func TestFrom(t *testing.T) {
	now := time.Now()
	for text, want := range map[string]pulsemq.Start{
		"start": pulsemq.StartEarliest(),
		"end":   pulsemq.StartLatest(),
		"0":     pulsemq.StartOffset(0),
		"@17":   pulsemq.StartTime(time.UnixMilli(17)),
		"@-1h":  pulsemq.StartTime(now.Add(-time.Hour)),
	} {
		if got, err := parseFrom(text, now); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "middle", "@", "1.5"} {
		if _, err := parseFrom(text, now); !errors.As(err, &usageError{}) {
			t.Errorf("%q: %v, want a usage error", text, err)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for input, want := range map[string][]string{
		"":                          nil,
		"\n":                        {""},
		"a\nb":                      {"a", "b"},
		"a\r\n\n\xff\n":             {"a\r", "", "\xff"},
		long + "\n" + long + "\nz":  {long, long, "z"},
		"short\n" + long + "\nlast": {"short", long, "last"},
	} {
		lines := newLineReader(strings.NewReader(input))
		var got []string
		for {
			line, err := lines.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
		}
		if strings.Join(got, "|") != strings.Join(want, "|") || len(got) != len(want) || lines.number != len(want) {
			t.Errorf("%d bytes of input make %d lines, want %d", len(input), len(got), len(want))
		}
	}
}

func TestFill(t *testing.T) {
	f := produceFlags{topic: "t", keySeparator: "::", separatorGiven: true, nullValue: "NULL", nullGiven: true}
	for _, c := range []struct {
		line, key, value string
		null             bool
	}{
		{"a::b::c", "a", "b::c", false},
		{"::", "", "", false},
		{"k::NULL", "k", "", true},
	} {
		m, err := f.template()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.fill(&m, []byte(c.line)); err != nil {
			t.Fatal(err)
		}
		if string(m.Key) != c.key || m.Key == nil || string(m.Value) != c.value || (m.Value == nil) != c.null {
			t.Errorf("%q becomes key %q value %q (null %v)", c.line, m.Key, m.Value, m.Value == nil)
		}
	}
	if err := f.fill(&pulsemq.Message{}, []byte("no separator")); err == nil {
		t.Error("a line without the separator is taken")
	}
}
