package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// recordLines prints each record as a JSON object on a line. It writes the
// objects itself: a million of them should take seconds, and which members there
// are depends on the bytes.
type recordLines struct {
	out  *bufio.Writer
	line []byte
}

func newRecordLines(w io.Writer) *recordLines {
	return &recordLines{out: bufio.NewWriterSize(w, outputBufferBytes)}
}

func (l *recordLines) print(r *pulsemq.Record) error {
	l.line = append(appendRecord(l.line[:0], r), "}\n"...)
	_, err := l.out.Write(l.line)
	return err
}

// printWith is print with one more member.
func (l *recordLines) printWith(r *pulsemq.Record, name string, v any) error {
	more, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b := append(appendJSONText(append(appendRecord(l.line[:0], r), ','), name), ':')
	l.line = append(append(b, more...), "}\n"...)
	_, err = l.out.Write(l.line)
	return err
}

// appendRecord appends the record as an object that is not closed.
func appendRecord(b []byte, r *pulsemq.Record) []byte {
	b = append(b, `{"topic":`...)
	b = appendJSONText(b, r.Topic)
	b = strconv.AppendUint(append(b, `,"partition":`...), uint64(r.Partition), 10)
	b = strconv.AppendInt(append(b, `,"offset":`...), r.Offset, 10)
	b = strconv.AppendInt(append(b, `,"epoch":`...), int64(r.LeaderEpoch), 10)
	b = strconv.AppendInt(append(b, `,"timestamp":`...), r.Timestamp.UnixMilli(), 10)
	b = appendJSONBytes(append(b, ','), "key", r.Key)
	b = appendJSONBytes(append(b, ','), "value", r.Value)
	b = append(b, `,"headers":[`...)
	for i, h := range r.Headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONText(append(b, `{"key":`...), h.Key)
		b = append(appendJSONBytes(append(b, ','), "value", h.Value), '}')
	}
	return append(b, ']')
}

func (l *recordLines) flush() error { return l.out.Flush() }
