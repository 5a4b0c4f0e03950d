package main

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

func TestFormat(t *testing.T) {
	record := pulsemq.Record{
		Topic: "orders", Partition: 3, Offset: 42, LeaderEpoch: 7, Timestamp: time.UnixMilli(1700000000123),
		Key: []byte("k"), Value: []byte("v\xff"),
		Headers: []pulsemq.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}},
	}
	for _, c := range []struct{ pattern, want string }{
		{`%p %o %k %v\n`, "3 42 k v\xff\n"},
		{`%t/%e %s%%\t\0\\`, "orders/7 2%\t\x00\\"},
		{`%T %D`, "1700000000123 2023-11-14T22:13:20.123Z"},
		{`%h`, "a=1,a="},
		{``, ""},
	} {
		format, err := parseFormat(c.pattern)
		if err != nil {
			t.Fatalf("%q: %v", c.pattern, err)
		}
		var out bytes.Buffer
		printer := &formatPrinter{format: format, out: bufio.NewWriter(&out)}
		if err := errors.Join(printer.print(&record), printer.flush()); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%q prints %q, want %q", c.pattern, out.String(), c.want)
		}
	}
	for _, pattern := range []string{`%`, `\`, `%x`, `\q`} {
		if _, err := parseFormat(pattern); !errors.As(err, &usageError{}) {
			t.Errorf("%q: %v, want a usage error", pattern, err)
		}
	}
}

func TestRecordLines(t *testing.T) {
	for _, c := range []struct {
		name   string
		record pulsemq.Record
		want   string
	}{
		{"null and empty differ", pulsemq.Record{Topic: "t", Timestamp: time.UnixMilli(5), Value: []byte{}},
			`{"topic":"t","partition":0,"offset":0,"epoch":0,"timestamp":5,"key":null,"value":"","headers":[]}`},
		{"bytes that are not UTF-8", pulsemq.Record{Topic: "t", Timestamp: time.UnixMilli(0), Key: []byte("\xff\x00"), Value: []byte("a\"b\n<é>")},
			`{"topic":"t","partition":0,"offset":0,"epoch":0,"timestamp":0,"key_base64":"/wA=","value":"a\"b\n\u003cé\u003e","headers":[]}`},
		{"headers in order, twice one name", pulsemq.Record{Topic: "t", Timestamp: time.UnixMilli(0), Headers: []pulsemq.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte("\xfe")}}},
			`{"topic":"t","partition":0,"offset":0,"epoch":0,"timestamp":0,"key":null,"value":null,"headers":[{"key":"a","value":"1"},{"key":"a","value":null},{"key":"b","value_base64":"/g=="}]}`},
	} {
		var out strings.Builder
		lines := newRecordLines(&out)
		if err := errors.Join(lines.print(&c.record), lines.flush()); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(out.String(), "\n"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
