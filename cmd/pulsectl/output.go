package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/pulsemq/pulsemq/core"
)

// Ways to print.
const (
	outputTable = "table"
	outputJSON  = "json"
)

// outputBufferBytes gathers lines before they are written.
const outputBufferBytes = 64 << 10

// table prints rows in aligned columns.
func (s *session) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// jsonLines prints values as one JSON object a line. HTML characters stay as they are.
type jsonLines struct {
	buffer  *bufio.Writer
	encoder *json.Encoder
}

func newJSONLines(w io.Writer) *jsonLines {
	buffer := bufio.NewWriterSize(w, outputBufferBytes)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	return &jsonLines{buffer, encoder}
}

func (j *jsonLines) print(v any) error { return j.encoder.Encode(v) }
func (j *jsonLines) flush() error      { return j.buffer.Flush() }

// printJSON prints each value as a line.
func printJSON[T any](s *session, values ...T) error {
	lines := newJSONLines(s.out)
	for _, v := range values {
		if err := lines.print(v); err != nil {
			return err
		}
	}
	return lines.flush()
}

// appendJSONBytes appends a member that holds bytes to an open JSON object: NAME as
// text when it is UTF-8, else NAME_base64, and null for null.
func appendJSONBytes(b []byte, name string, value []byte) []byte {
	suffix := ""
	if value != nil && !utf8.Valid(value) {
		suffix = "_base64"
	}
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, suffix...)
	b = append(b, '"', ':')
	switch {
	case value == nil:
		return append(b, "null"...)
	case suffix != "":
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, value)
		return append(b, '"')
	}
	return appendJSONText(b, value)
}

// appendJSONText appends UTF-8 text as a JSON string. Most text needs no escapes
// and is copied as it is.
func appendJSONText[T string | []byte](b []byte, text T) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			escaped, err := json.Marshal(string(text))
			core.Assert(err == nil, "a string has a JSON encoding")
			return append(b, escaped...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
