package netio

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valyala/bytebufferpool"
)

// kind is the type of a metric family in the text format.
type kind string

const (
	counter kind = "counter"
	gauge   kind = "gauge"
	summary kind = "summary"
)

// page gathers series into families: the text format wants all series of a
// family together, while they come from one source after the other. With many
// partitions a page has megabytes and is made anew every few seconds, which is
// why its buffers are pooled.
type page struct {
	families map[string]*family
}

type family struct {
	name  string
	kind  kind
	help  string
	lines *bytebufferpool.ByteBuffer
}

func newPage() *page { return &page{families: make(map[string]*family)} }

// family finds or makes a family.
func (p *page) family(name string, k kind, help string) *family {
	f := p.families[name]
	if f == nil {
		f = &family{name: name, kind: k, help: help, lines: bytebufferpool.Get()}
		p.families[name] = f
	}
	return f
}

// label is one label of a series.
type label struct{ name, value string }

// add writes one series of a family; suffix is empty but for parts of a summary.
func (f *family) add(suffix string, value float64, labels ...label) {
	b := append(f.lines.B, f.name...)
	b = append(b, suffix...)
	if len(labels) > 0 {
		b = append(b, '{')
		for i, l := range labels {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, l.name...), '=', '"')
			b = append(appendLabelValue(b, l.value), '"')
		}
		b = append(b, '}')
	}
	b = append(b, ' ')
	if whole := int64(value); float64(whole) == value { // 1400006 reads better than 1.400006e+06
		b = strconv.AppendInt(b, whole, 10)
	} else {
		b = strconv.AppendFloat(b, value, 'g', -1, 64)
	}
	f.lines.B = append(b, '\n')
}

// appendLabelValue escapes what the text format escapes and replaces what is not
// UTF-8, so that no name can break the page.
func appendLabelValue(b []byte, value string) []byte {
	for _, r := range strings.ToValidUTF8(value, "\uFFFD") {
		switch r {
		case '\\':
			b = append(b, `\\`...)
		case '"':
			b = append(b, `\"`...)
		case '\n':
			b = append(b, `\n`...)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// counter and gauge add one series.
func (p *page) counter(name, help string, value float64, labels ...label) {
	p.family(name, counter, help).add("", value, labels...)
}

func (p *page) gauge(name, help string, value float64, labels ...label) {
	p.family(name, gauge, help).add("", value, labels...)
}

// write puts the families out in the order of their names.
func (p *page) write(w io.Writer) error {
	names := make([]string, 0, len(p.families))
	for name := range p.families {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := p.families[name]
		if _, err := io.WriteString(w, "# HELP "+name+" "+f.help+"\n# TYPE "+name+" "+string(f.kind)+"\n"); err != nil {
			return err
		}
		if _, err := w.Write(f.lines.B); err != nil {
			return err
		}
	}
	return nil
}

// release gives the buffers back.
func (p *page) release() {
	for _, f := range p.families {
		bytebufferpool.Put(f.lines)
	}
	p.families = nil
}
