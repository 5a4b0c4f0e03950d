package netio

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of a metric family in the text format.
type kind string

const (
	counter kind = "counter"
	gauge   kind = "gauge"
	summary kind = "summary"
)

// page gathers series into families: the text format wants all series of a
// family together, while they come from one source after the other.
type page struct {
	families map[string]*family
}

type family struct {
	name  string
	kind  kind
	help  string
	lines bytes.Buffer
}

func newPage() *page { return &page{families: make(map[string]*family)} }

// family finds or makes a family.
func (p *page) family(name string, k kind, help string) *family {
	f := p.families[name]
	if f == nil {
		f = &family{name: name, kind: k, help: help}
		p.families[name] = f
	}
	return f
}

// label is one label of a series.
type label struct{ name, value string }

// add writes one series of a family; suffix is empty but for parts of a summary.
func (f *family) add(suffix string, value float64, labels ...label) {
	f.lines.WriteString(f.name)
	f.lines.WriteString(suffix)
	if len(labels) > 0 {
		f.lines.WriteByte('{')
		for i, l := range labels {
			if i > 0 {
				f.lines.WriteByte(',')
			}
			f.lines.WriteString(l.name)
			f.lines.WriteString(`="`)
			writeLabelValue(&f.lines, l.value)
			f.lines.WriteByte('"')
		}
		f.lines.WriteByte('}')
	}
	f.lines.WriteByte(' ')
	f.lines.Write(strconv.AppendFloat(f.lines.AvailableBuffer(), value, 'g', -1, 64))
	f.lines.WriteByte('\n')
}

// writeLabelValue escapes what the text format escapes and replaces what is not
// UTF-8, so that no name can break the page.
func writeLabelValue(b *bytes.Buffer, value string) {
	for _, r := range strings.ToValidUTF8(value, "\uFFFD") {
		switch r {
		case '\\':
			b.WriteString(`\\`)
		case '"':
			b.WriteString(`\"`)
		case '\n':
			b.WriteString(`\n`)
		default:
			b.WriteRune(r)
		}
	}
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
		if _, err := w.Write(f.lines.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
