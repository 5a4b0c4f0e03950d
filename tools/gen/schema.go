package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schema is the whole protocol as the definition files give it, with every type name resolved. Backends only read it.
//
// Invariants: commands are in the order of their numbers, errors too; shared structs come in the order of their file.
type schema struct {
	commands []*command
	shared   []*structure
	errors   []*errorCode
	reserved []*errorCode // numbers kept for later or never to be used again
	configs  []*topicConfig

	structs map[string]*structure
	enums   map[string]*enum
}

// command is one command with its messages. A message that does not exist is nil.
type command struct {
	Name     string       `yaml:"command"`
	Number   int          `yaml:"number"`
	Version  int          `yaml:"version"` // a version is a layout: another layout is another version
	Reserved bool         `yaml:"reserved"`
	Unserved bool         `yaml:"unserved"` // has a layout, and no broker of this release serves it
	Answered bool         `yaml:"answered"`
	Errors   []string     `yaml:"errors"` // besides those that any command may have
	Doc      string       `yaml:"doc"`
	Request  *message     `yaml:"request"`
	Response *message     `yaml:"response"`
	Push     *message     `yaml:"push"`
	Enums    []*enum      `yaml:"enums"`
	Structs  []*structure `yaml:"structs"`

	file string
}

// message is the payload of a frame: a structure, or the name of a shared one.
type message struct {
	structure `yaml:",inline"`
	Struct    string `yaml:"struct"` // the shared structure that is the payload
	Answer    bool   `yaml:"answer"` // a push that carries the answer bit
	Bulk      *bulk  `yaml:"bulk"`

	role string // request, response or push
}

// structure is a list of fields followed by tagged optional ones.
type structure struct {
	Name   string   `yaml:"name"`
	Doc    string   `yaml:"doc"`
	Fields []*field `yaml:"fields"`
	Tagged []*field `yaml:"tagged"`
}

// field is one value. Tag is set for tagged fields only.
type field struct {
	Tag      *int   `yaml:"tag"`
	Name     string `yaml:"name"`
	TypeName string `yaml:"type"`
	Doc      string `yaml:"doc"`

	typ *fieldType
}

// bulk is the run of bytes that ends a message, up to the end of its frame.
type bulk struct {
	Name string `yaml:"name"`
	Doc  string `yaml:"doc"`
}

type enum struct {
	Name     string       `yaml:"name"`
	TypeName string       `yaml:"type"`
	Doc      string       `yaml:"doc"`
	Values   []*enumValue `yaml:"values"`

	file string // of the command that describes it
}

type enumValue struct {
	Name  string `yaml:"name"`
	Value int    `yaml:"value"`
	Doc   string `yaml:"doc"`
}

type errorCode struct {
	Name      string   `yaml:"name"`
	Number    int      `yaml:"number"`
	Retriable bool     `yaml:"retriable"`
	Text      string   `yaml:"text"`
	Details   []string `yaml:"details"` // tagged fields of the shared structure error that are set
	Doc       string   `yaml:"doc"`
}

type topicConfig struct {
	Key    string   `yaml:"key"`
	Kind   string   `yaml:"kind"` // choice, duration, durations, size, number, text or bool
	Values []string `yaml:"values"`
	Doc    string   `yaml:"doc"`
}

type kind int

const (
	kindScalar kind = iota // fixed size: bool, integers, topic_id, code, command
	kindString
	kindBytes
	kindArray
	kindStruct
	kindEnum // one byte
)

// fieldType is a resolved type.
type fieldType struct {
	kind      kind
	name      string // of a scalar: as written in the schema
	elem      *fieldType
	structure *structure
	enum      *enum
}

// scalarBytes is the size of every fixed-size type.
var scalarBytes = map[string]int{
	"bool": 1, "u8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8,
	"topic_id": 16, "code": 2, "command": 1,
}

// bytesMin is the least number of bytes a value of the type takes on the wire.
func (t *fieldType) bytesMin() int {
	switch t.kind {
	case kindScalar:
		return scalarBytes[t.name]
	case kindStruct:
		n := 1 // the count of tags
		for _, f := range t.structure.Fields {
			n += f.typ.bytesMin()
		}
		return n
	default: // a length, a count or an enum
		return 1
	}
}

// loadSchema reads the definition files of a folder and checks that they fit together.
func loadSchema(dir string) (*schema, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s holds no definition files", dir)
	}
	sort.Strings(paths)
	s := &schema{structs: map[string]*structure{}, enums: map[string]*enum{}}
	for _, path := range paths {
		if err := s.load(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	sort.Slice(s.commands, func(i, j int) bool { return s.commands[i].Number < s.commands[j].Number })
	sort.Slice(s.errors, func(i, j int) bool { return s.errors[i].Number < s.errors[j].Number })
	if err := s.resolve(); err != nil {
		return nil, err
	}
	return s, s.check()
}

// load reads one definition file; its name says what it holds.
func (s *schema) load(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	switch filepath.Base(path) {
	case "errors.yaml":
		var v struct {
			Reserved []*errorCode `yaml:"reserved"`
			Errors   []*errorCode `yaml:"errors"`
		}
		err = dec.Decode(&v)
		s.errors, s.reserved = v.Errors, v.Reserved
	case "shared.yaml":
		var v struct {
			Structs []*structure `yaml:"structs"`
		}
		err = dec.Decode(&v)
		s.shared = v.Structs
	case "topic_configs.yaml":
		var v struct {
			Configs []*topicConfig `yaml:"topic_configs"`
		}
		err = dec.Decode(&v)
		s.configs = v.Configs
	default:
		c := &command{file: strings.TrimSuffix(filepath.Base(path), ".yaml")}
		err = dec.Decode(c)
		s.commands = append(s.commands, c)
	}
	return err
}

// messages lists the messages of a command in the order request, response, push.
func (c *command) messages() []*message {
	var l []*message
	for _, m := range []*message{c.Request, c.Response, c.Push} {
		if m != nil {
			l = append(l, m)
		}
	}
	return l
}

// resolve names the messages and turns every type name into a type.
func (s *schema) resolve() error {
	var all []*structure
	add := func(list []*structure) error {
		for _, st := range list {
			if s.structs[st.Name] != nil {
				return fmt.Errorf("structure %s is defined twice", st.Name)
			}
			s.structs[st.Name] = st
			all = append(all, st)
		}
		return nil
	}
	if err := add(s.shared); err != nil {
		return err
	}
	for _, c := range s.commands {
		if err := add(c.Structs); err != nil {
			return err
		}
		for _, e := range c.Enums {
			if s.enums[e.Name] != nil {
				return fmt.Errorf("enum %s is defined twice", e.Name)
			}
			e.file = c.file
			s.enums[e.Name] = e
		}
	}
	for _, c := range s.commands {
		if c.Request != nil {
			c.Request.role = "request"
		}
		if c.Response != nil {
			c.Response.role = "response"
		}
		if c.Push != nil {
			c.Push.role = "push"
		}
		for _, m := range c.messages() {
			if m.Struct == "" {
				m.Name = strings.ToLower(c.Name) + "_" + m.role
				all = append(all, &m.structure)
				continue
			}
			shared := s.structs[m.Struct]
			if shared == nil {
				return fmt.Errorf("%s %s: no structure %s", c.Name, m.role, m.Struct)
			}
			m.structure = *shared
		}
	}
	for _, st := range all {
		for _, f := range append(append([]*field(nil), st.Fields...), st.Tagged...) {
			t, err := s.typeOf(f.TypeName)
			if err != nil {
				return fmt.Errorf("%s.%s: %w", st.Name, f.Name, err)
			}
			f.typ = t
		}
	}
	return nil
}

func (s *schema) typeOf(name string) (*fieldType, error) {
	if elem, ok := strings.CutPrefix(name, "[]"); ok {
		t, err := s.typeOf(elem)
		if err != nil {
			return nil, err
		}
		return &fieldType{kind: kindArray, name: name, elem: t}, nil
	}
	switch {
	case scalarBytes[name] > 0:
		return &fieldType{kind: kindScalar, name: name}, nil
	case name == "string":
		return &fieldType{kind: kindString, name: name}, nil
	case name == "bytes":
		return &fieldType{kind: kindBytes, name: name}, nil
	case s.structs[name] != nil:
		return &fieldType{kind: kindStruct, name: name, structure: s.structs[name]}, nil
	case s.enums[name] != nil:
		return &fieldType{kind: kindEnum, name: name, enum: s.enums[name]}, nil
	}
	return nil, fmt.Errorf("no type %q", name)
}
