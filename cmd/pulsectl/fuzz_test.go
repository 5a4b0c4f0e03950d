package main

import (
	"bufio"
	"bytes"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// What a user types: any text is a value or a usage error, and never panics.

// FuzzFormat reads patterns of --format and prints a record by those that are good.
func FuzzFormat(f *testing.F) {
	for _, pattern := range []string{`%p %o %k %v\n`, `%%`, `%`, `\`, `%T %D %h\0`, "%\xff", ""} {
		f.Add(pattern, []byte("value"))
	}
	f.Fuzz(func(t *testing.T, pattern string, value []byte) {
		parts, err := parseFormat(pattern)
		if err != nil {
			return
		}
		var out bytes.Buffer
		p := formatPrinter{format: parts, out: bufio.NewWriter(&out)}
		r := &pulsemq.Record{Topic: "t", Key: value, Value: value, Headers: []pulsemq.Header{{Key: "a", Value: value}, {Key: "b"}}}
		if err := p.print(r); err != nil {
			t.Fatal(err)
		}
		if err := p.flush(); err != nil {
			t.Fatal(err)
		}
		if most := (len(pattern) + 1) * (2*len(value) + 64); out.Len() > most {
			t.Fatalf("%q printed %d bytes", pattern, out.Len())
		}
	})
}

// FuzzMoment reads times and places to start from.
func FuzzMoment(f *testing.F) {
	for _, text := range []string{"-1h", "@-1h", "start", "end", "2026-01-02T03:04:05Z", "@1700000000000", "17", "-5", "@", "99999999999999999999", "@-99999999h", "+1"} {
		f.Add(text)
	}
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := parseMoment("--at", text, now); err == nil && at.IsZero() {
			t.Fatalf("%q is no time at all", text)
		}
		_, _ = parseFrom(text, now)
	})
}
