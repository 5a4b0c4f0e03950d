package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// annotator names the bytes of a golden vector one by one. It reads them by the schema alone, so it also shows that the
// schema and the generated code mean the same bytes.
type annotator struct {
	b     []byte
	off   int
	lines []annotation
	err   error
}

type annotation struct {
	bytes       []byte
	name, value string
	depth       int
}

// annotateFrame lists a frame's bytes with their meaning.
func annotateFrame(s *schema, v frameVector) (string, error) {
	b, err := hex.DecodeString(v.Frame)
	if err != nil {
		return "", err
	}
	a := &annotator{b: b}
	a.number("length", "u32", 0)
	a.number("version", "u8", 0)
	number := a.peek(0)
	c, m := s.message(int(number&0x7f), v.Message)
	if m == nil {
		return "", fmt.Errorf("no message %s of command %d", v.Message, number&0x7f)
	}
	kind := "request"
	if number&0x80 != 0 {
		kind = "answer bit"
	}
	a.take(1, "command", fmt.Sprintf("%d %s, %s", number&0x7f, c.Name, kind), 0)
	a.number("request id", "u64", 0)
	a.structure(&m.structure, 0)
	if m.Bulk != nil {
		n := len(a.b) - a.off
		a.take(n, m.Bulk.Name, fmt.Sprintf("%d bytes", n), 0)
	}
	return a.text()
}

// message finds a command and one of its messages by the message's name in the vectors.
func (s *schema) message(number int, name string) (*command, *message) {
	for _, c := range s.commands {
		if c.Number != number {
			continue
		}
		for _, m := range c.messages() {
			if strings.HasSuffix(name, "_"+m.role) {
				return c, m
			}
		}
	}
	return nil, nil
}

// batchLayout is the header of a record batch.
var batchLayout = []struct{ name, kind string }{
	{"base offset", "i64"}, {"batch length", "i32"}, {"leader epoch", "i32"}, {"magic", "i8"}, {"crc", "crc"},
	{"attributes", "u16"}, {"last offset delta", "i32"}, {"base timestamp", "i64"}, {"max timestamp", "i64"},
	{"producer id", "i64"}, {"producer epoch", "i16"}, {"base sequence", "i32"}, {"record count", "i32"},
}

// annotateBatch lists the bytes of an uncompressed batch with their meaning.
func annotateBatch(v batchVector) (string, error) {
	b, err := hex.DecodeString(v.Batch)
	if err != nil {
		return "", err
	}
	a := &annotator{b: b}
	for _, f := range batchLayout {
		a.number(f.name, f.kind, 0)
	}
	for i := 0; a.off < len(a.b) && a.err == nil; i++ {
		a.varint(fmt.Sprintf("record %d: length", i), 0)
		a.number("attributes", "i8", 1)
		a.varint("timestamp delta", 1)
		a.varint("offset delta", 1)
		a.nullable("key", 1)
		a.nullable("value", 1)
		for n := a.varint("headers", 1); n > 0 && a.err == nil; n-- {
			a.nullable("header key", 2)
			a.nullable("header value", 2)
		}
	}
	return a.text()
}

func (a *annotator) peek(i int) byte {
	if a.off+i >= len(a.b) {
		a.fail()
		return 0
	}
	return a.b[a.off+i]
}

func (a *annotator) fail() {
	if a.err == nil {
		a.err = fmt.Errorf("the bytes end at %d", a.off)
	}
}

// take moves over n bytes and notes what they are.
func (a *annotator) take(n int, name, value string, depth int) []byte {
	if n > len(a.b)-a.off || a.err != nil {
		a.fail()
		return nil
	}
	b := a.b[a.off : a.off+n]
	a.off += n
	if n > 0 {
		a.lines = append(a.lines, annotation{b, name, value, depth})
	}
	return b
}

// number notes a number of fixed size.
func (a *annotator) number(name, kind string, depth int) {
	bits := 32
	if kind != "crc" {
		bits, _ = strconv.Atoi(kind[1:])
	}
	if bits/8 > len(a.b)-a.off {
		a.fail()
		return
	}
	var v uint64
	for _, c := range a.b[a.off : a.off+bits/8] {
		v = v<<8 | uint64(c)
	}
	value := strconv.FormatUint(v, 10)
	switch {
	case kind == "crc":
		value = fmt.Sprintf("%#08x, CRC32C of all that follows", v)
	case kind[0] == 'i':
		value = strconv.FormatInt(int64(v<<(64-bits))>>(64-bits), 10)
	}
	a.take(bits/8, name, value, depth)
}

func (a *annotator) uvarint(name string, depth int, note string) int {
	v, n := binary.Uvarint(a.b[a.off:])
	if n <= 0 {
		a.fail()
		return 0
	}
	a.take(n, name, strings.TrimSpace(fmt.Sprintf("%d %s", v, note)), depth)
	return int(v)
}

func (a *annotator) varint(name string, depth int) int {
	v, n := binary.Varint(a.b[a.off:])
	if n <= 0 {
		a.fail()
		return 0
	}
	a.take(n, name, strconv.FormatInt(v, 10), depth)
	return int(v)
}

func (a *annotator) nullable(name string, depth int) {
	n := a.varint(name+" length", depth)
	if n > 0 {
		a.quoted(n, name, depth)
	}
}

func (a *annotator) quoted(n int, name string, depth int) {
	if n > len(a.b)-a.off {
		a.fail()
		return
	}
	a.take(n, name, strconv.Quote(string(a.b[a.off:a.off+n])), depth)
}

func (a *annotator) structure(st *structure, depth int) {
	for _, f := range st.Fields {
		a.value(f.typ, f.Name, depth)
	}
	note := ""
	if st.Name != "" && depth > 0 {
		note = "(end of " + st.Name + ")"
	}
	byTag := map[int]*field{}
	for _, f := range st.Tagged {
		byTag[*f.Tag] = f
	}
	n := a.uvarint("tagged fields", depth, "")
	if n == 0 && note != "" && len(a.lines) > 0 {
		a.lines[len(a.lines)-1].value = "0 " + note
	}
	for range n {
		tag := a.uvarint("tag", depth+1, "")
		f := byTag[tag]
		if f == nil {
			a.err = fmt.Errorf("tag %d is not in %s", tag, st.Name)
			return
		}
		a.lines[len(a.lines)-1].value = fmt.Sprintf("%d %s", tag, f.Name)
		a.uvarint("size", depth+1, "bytes")
		a.value(f.typ, f.Name, depth+1)
	}
}

func (a *annotator) value(t *fieldType, name string, depth int) {
	if a.err != nil {
		return
	}
	switch t.kind {
	case kindString:
		if n := a.uvarint(name+" length", depth, ""); n > 0 {
			a.quoted(n, name, depth)
		}
	case kindBytes:
		n := a.uvarint(name+" length", depth, "")
		a.take(n, name, fmt.Sprintf("%d bytes", n), depth)
	case kindEnum:
		v := int(a.peek(0))
		value := strconv.Itoa(v)
		for _, e := range t.enum.Values {
			if e.Value == v {
				value += " " + e.Name
			}
		}
		a.take(1, name, value, depth)
	case kindArray:
		n := a.uvarint(name+" count", depth, "")
		for i := range n {
			if t.elem.kind == kindStruct {
				a.lines = append(a.lines, annotation{nil, fmt.Sprintf("%s[%d]", name, i), "", depth + 1})
				a.structure(t.elem.structure, depth+2)
				continue
			}
			a.value(t.elem, fmt.Sprintf("%s[%d]", name, i), depth+1)
		}
	case kindStruct:
		a.lines = append(a.lines, annotation{nil, name, "", depth})
		a.structure(t.structure, depth+1)
	default:
		switch t.name {
		case "bool":
			a.take(1, name, fmt.Sprint(a.peek(0) == 1), depth)
		case "topic_id":
			if len(a.b)-a.off < 16 {
				a.fail()
				return
			}
			a.take(16, name, hex.EncodeToString(a.b[a.off:a.off+16]), depth)
		case "command":
			a.number(name, "u8", depth)
		case "code":
			a.number(name, "u16", depth)
		default:
			a.number(name, t.name, depth)
		}
	}
}

// text lays the lines out: eight bytes to a line, then the name, then the value.
func (a *annotator) text() (string, error) {
	if a.err == nil && a.off != len(a.b) {
		a.err = fmt.Errorf("%d bytes are left over", len(a.b)-a.off)
	}
	if a.err != nil {
		return "", a.err
	}
	var out strings.Builder
	for _, l := range a.lines {
		b, rest := l.bytes, []byte(nil)
		if len(b) > 8 {
			b, rest = b[:8], b[8:]
		}
		name := strings.Repeat("  ", l.depth) + l.name
		out.WriteString(strings.TrimRight(fmt.Sprintf("%-23s  %-34s %s", spaced(b), name, l.value), " ") + "\n")
		for len(rest) > 0 {
			n := min(8, len(rest))
			out.WriteString(spaced(rest[:n]) + "\n")
			rest = rest[n:]
		}
	}
	return out.String(), nil
}

func spaced(b []byte) string { return strings.TrimSpace(fmt.Sprintf("% x", b)) }
