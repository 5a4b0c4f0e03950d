package main

import (
	"bufio"
	"strconv"
	"strings"
	"time"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
)

// formatVerbs are the letters that may follow a percent sign.
const formatVerbs = "tpoekvhsTD"

// formatPart is a piece of text, or a verb.
type formatPart struct {
	text string
	verb byte // 0 for text
}

// parseFormat reads a pattern of --format.
func parseFormat(pattern string) ([]formatPart, error) {
	var parts []formatPart
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, formatPart{text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c != '%' && c != '\\' {
			text.WriteByte(c)
			continue
		}
		if i++; i == len(pattern) {
			return nil, usagef("--format %q ends with a single %q", pattern, c)
		}
		switch next := pattern[i]; {
		case c == '%' && next == '%':
			text.WriteByte('%')
		case c == '%' && strings.IndexByte(formatVerbs, next) >= 0:
			flush()
			parts = append(parts, formatPart{verb: next})
		case c == '\\' && strings.IndexByte(`ntr0\`, next) >= 0:
			text.WriteByte(map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '0': 0, '\\': '\\'}[next])
		default:
			return nil, usagef(`--format: %q is not known; allowed are %%%% and %% with one of %s, and \n \t \r \0 \\`, string([]byte{c, next}), formatVerbs)
		}
	}
	flush()
	return parts, nil
}

// formatPrinter prints records by a pattern.
type formatPrinter struct {
	format []formatPart
	out    *bufio.Writer
	number []byte
}

func (p *formatPrinter) print(r *pulsemq.Record) error {
	for i := range p.format {
		switch part := &p.format[i]; part.verb {
		case 0:
			p.out.WriteString(part.text)
		case 't':
			p.out.WriteString(r.Topic)
		case 'p':
			p.int(int64(r.Partition))
		case 'o':
			p.int(r.Offset)
		case 'e':
			p.int(int64(r.LeaderEpoch))
		case 'k':
			p.out.Write(r.Key)
		case 'v':
			p.out.Write(r.Value)
		case 's':
			p.int(int64(len(r.Value)))
		case 'T':
			p.int(r.Timestamp.UnixMilli())
		case 'D':
			p.out.WriteString(r.Timestamp.UTC().Format(time.RFC3339Nano))
		case 'h':
			for n, h := range r.Headers {
				if n > 0 {
					p.out.WriteByte(',')
				}
				p.out.WriteString(h.Key)
				p.out.WriteByte('=')
				p.out.Write(h.Value)
			}
		}
	}
	// The writer keeps its first error and returns it from every later call.
	_, err := p.out.Write(nil)
	return err
}

func (p *formatPrinter) int(v int64) {
	p.number = strconv.AppendInt(p.number[:0], v, 10)
	p.out.Write(p.number)
}

func (p *formatPrinter) flush() error { return p.out.Flush() }
