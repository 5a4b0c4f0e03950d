package main

import "fmt"

// structure emits the type and its three unexported methods: size, append, decode. They leave the bulk bytes to the
// message's exported methods.
func (g *goFile) structure(st *structure, blk *bulk) {
	name := camel(st.Name)
	g.comment(name + " " + predicate(st.Doc))
	g.p("type %s struct {", name)
	for _, f := range st.Fields {
		g.comment(f.Doc)
		g.p("%s %s", camel(f.Name), goType(f.typ))
	}
	for _, f := range st.Tagged {
		g.comment(fmt.Sprintf("%s (Tag %d; left out when it is %s.)", f.Doc, *f.Tag, zeroWord(f.typ)))
		if f.typ.kind == kindStruct {
			g.p("%s *%s", camel(f.Name), goType(f.typ))
		} else {
			g.p("%s %s", camel(f.Name), goType(f.typ))
		}
	}
	if blk != nil {
		g.comment(blk.Doc + " A slice of the input after decoding.")
		g.p("%s []byte", camel(blk.Name))
	}
	g.p("}\n")
	g.size(name, st)
	g.append(name, st)
	g.decode(name, st)
}

func zeroWord(t *fieldType) string {
	switch t.kind {
	case kindStruct:
		return "nil"
	case kindString, kindBytes, kindArray:
		return "empty"
	}
	return "0"
}

// sizeOf is an expression for the size of a value, and whether it is a constant.
func sizeOf(t *fieldType, v string) (string, bool) {
	switch t.kind {
	case kindScalar:
		return fmt.Sprint(scalarBytes[t.name]), true
	case kindEnum:
		return "1", true
	case kindString, kindBytes:
		return fmt.Sprintf("sizeBytes(len(%s))", v), false
	case kindStruct:
		return v + ".size()", false
	}
	return "", false
}

func (g *goFile) size(name string, st *structure) {
	fixed := 0
	for _, f := range st.Fields {
		if n, ok := sizeOf(f.typ, ""); ok {
			var k int
			fmt.Sscan(n, &k)
			fixed += k
		}
	}
	g.p("// size is the number of bytes that append writes.")
	g.p("func (m *%s) size() int {", name)
	if len(st.Tagged) == 0 {
		g.p("n := %d // fixed fields and the count of tags", fixed+1)
	} else {
		g.p("n := %d // fixed fields", fixed)
	}
	for _, f := range st.Fields {
		if _, ok := sizeOf(f.typ, ""); !ok {
			g.sizeAdd("n", f.typ, "m."+camel(f.Name))
		}
	}
	if len(st.Tagged) > 0 {
		g.p("tags := uint64(0)")
		for _, f := range st.Tagged {
			v := "m." + camel(f.Name)
			g.p("if %s {", present(f.typ, v))
			g.p("tags++")
			if e, ok := sizeOf(f.typ, v); ok || f.typ.kind != kindArray {
				g.p("n += sizeTag(%d, %s)", *f.Tag, e)
			} else {
				g.p("body := 0")
				g.sizeAdd("body", f.typ, v)
				g.p("n += sizeTag(%d, body)", *f.Tag)
			}
			g.p("}")
		}
		g.p("n += sizeUvarint(tags)")
	}
	g.p("return n\n}\n")
}

func (g *goFile) sizeAdd(n string, t *fieldType, v string) {
	if t.kind != kindArray {
		e, _ := sizeOf(t, v)
		g.p("%s += %s", n, e)
		return
	}
	g.p("%s += sizeUvarint(uint64(len(%s)))", n, v)
	if e, ok := sizeOf(t.elem, ""); ok {
		g.p("%s += %s * len(%s)", n, e, v)
		return
	}
	g.p("for i := range %s {", v)
	g.sizeAdd(n, t.elem, v+"[i]")
	g.p("}")
}

// present is the condition under which a tagged field is written.
func present(t *fieldType, v string) string {
	switch t.kind {
	case kindStruct:
		return v + " != nil"
	case kindString, kindBytes, kindArray:
		return "len(" + v + ") > 0"
	}
	switch t.name {
	case "bool":
		return v
	case "topic_id":
		return v + " != [16]byte{}"
	}
	return v + " != 0"
}

func (g *goFile) append(name string, st *structure) {
	g.p("// append writes the fields and the tags.")
	g.p("func (m *%s) append(b []byte) []byte {", name)
	for _, f := range st.Fields {
		g.appendValue(f.typ, "m."+camel(f.Name))
	}
	if len(st.Tagged) == 0 {
		g.p("return append(b, 0) // no tags\n}\n")
		return
	}
	g.p("tags := uint64(0)")
	for _, f := range st.Tagged {
		g.p("if %s {\ntags++\n}", present(f.typ, "m."+camel(f.Name)))
	}
	g.p("b = binary.AppendUvarint(b, tags)")
	for _, f := range st.Tagged {
		v := "m." + camel(f.Name)
		g.p("if %s {", present(f.typ, v))
		if f.typ.kind == kindArray {
			g.p("body := 0")
			g.sizeAdd("body", f.typ, v)
			g.p("b = appendTag(b, %d, body)", *f.Tag)
		} else {
			e, _ := sizeOf(f.typ, v)
			g.p("b = appendTag(b, %d, %s)", *f.Tag, e)
		}
		g.appendValue(f.typ, v)
		g.p("}")
	}
	g.p("return b\n}\n")
}

func (g *goFile) appendValue(t *fieldType, v string) {
	switch t.kind {
	case kindString, kindBytes:
		g.p("b = appendBytes(b, %s)", v)
	case kindEnum:
		g.p("b = append(b, byte(%s))", v)
	case kindStruct:
		g.p("b = %s.append(b)", v)
	case kindArray:
		g.p("b = binary.AppendUvarint(b, uint64(len(%s)))", v)
		g.p("for i := range %s {", v)
		g.appendValue(t.elem, v+"[i]")
		g.p("}")
	default:
		switch t.name {
		case "bool":
			g.p("b = appendBool(b, %s)", v)
		case "u8", "command":
			g.p("b = append(b, byte(%s))", v)
		case "topic_id":
			g.p("b = append(b, %s[:]...)", v)
		case "code":
			g.p("b = binary.BigEndian.AppendUint16(b, uint16(%s))", v)
		default:
			n := t.name[1:]
			g.p("b = binary.BigEndian.AppendUint%s(b, uint%s(%s))", n, n, v)
		}
	}
}

func (g *goFile) decode(name string, st *structure) {
	g.p("// decode reads what append writes. After a failure the fields are undefined.")
	g.p("func (m *%s) decode(r *reader) {", name)
	for _, f := range st.Fields {
		g.decodeValue(f.typ, "m."+camel(f.Name), st.Name+"."+f.Name)
	}
	if len(st.Tagged) == 0 {
		g.p("r.skipTags(%q)\n}\n", st.Name)
		return
	}
	for _, f := range st.Tagged {
		v := "m." + camel(f.Name)
		switch {
		case f.typ.kind == kindArray:
			g.p("%s = %s[:0]", v, v)
		case f.typ.kind == kindStruct || f.typ.kind == kindBytes:
			g.p("%s = nil", v)
		case f.typ.kind == kindString:
			g.p(`%s = ""`, v)
		case f.typ.name == "bool":
			g.p("%s = false", v)
		case f.typ.name == "topic_id":
			g.p("%s = [16]byte{}", v)
		default:
			g.p("%s = 0", v)
		}
	}
	g.p("tags := r.tags(%q)", st.Name)
	g.p("for tags.next(r) {")
	g.p("switch tags.tag {")
	for _, f := range st.Tagged {
		v := "m." + camel(f.Name)
		g.p("case %d:", *f.Tag)
		if f.typ.kind == kindStruct {
			g.p("%s = new(%s)", v, goType(f.typ))
		}
		g.decodeValue(f.typ, v, st.Name+"."+f.Name)
	}
	g.p("default: tags.skip(r)")
	g.p("}\n}\n}\n")
}

func (g *goFile) decodeValue(t *fieldType, v, path string) {
	switch t.kind {
	case kindString:
		g.p("%s = r.string(%q)", v, path)
	case kindBytes:
		g.p("%s = r.bytes(%q)", v, path)
	case kindEnum:
		g.p("%s = %s(r.u8(%q))", v, camel(t.name), path)
	case kindStruct:
		g.p("%s.decode(r)", v)
	case kindArray:
		g.p("%s = grow(%s, r.count(%q, %d))", v, v, path, t.elem.bytesMin())
		g.p("for i := range %s {", v)
		g.decodeValue(t.elem, v+"[i]", path)
		g.p("if r.failed() {\nreturn\n}")
		g.p("}")
	default:
		switch t.name {
		case "bool", "u8":
			g.p("%s = r.%s(%q)", v, t.name, path)
		case "topic_id":
			g.p("%s = r.topicID(%q)", v, path)
		case "code":
			g.p("%s = Code(r.u16(%q))", v, path)
		case "command":
			g.p("%s = Command(r.u8(%q))", v, path)
		default:
			if t.name[0] == 'u' {
				g.p("%s = r.%s(%q)", v, t.name, path)
			} else {
				g.p("%s = %s(r.u%s(%q))", v, goScalar(t.name), t.name[1:], path)
			}
		}
	}
}
