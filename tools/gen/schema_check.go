package main

import (
	"fmt"
	"slices"
)

// check holds the schema to the rules that the wire depends on.
func (s *schema) check() error {
	numbers := map[int]string{}
	for _, c := range s.commands {
		if c.Name == "" || c.Doc == "" {
			return fmt.Errorf("%s.yaml: a command needs a name and a doc", c.file)
		}
		if c.Number < 0 || c.Number > 127 {
			return fmt.Errorf("%s: number %d does not fit in 7 bits", c.Name, c.Number)
		}
		if other := numbers[c.Number]; other != "" {
			return fmt.Errorf("%s and %s have the same number %d", other, c.Name, c.Number)
		}
		numbers[c.Number] = c.Name
		if c.Version < 1 || c.Version > 255 {
			return fmt.Errorf("%s: version %d is not in 1 to 255", c.Name, c.Version)
		}
		if c.Reserved != (len(c.messages()) == 0) {
			return fmt.Errorf("%s: a command has messages or is reserved", c.Name)
		}
		for _, m := range c.messages() {
			if err := checkStructure(&m.structure); err != nil {
				return err
			}
		}
	}
	for _, st := range s.structs {
		if err := checkStructure(st); err != nil {
			return err
		}
	}
	for _, e := range s.enums {
		if e.TypeName != "u8" {
			return fmt.Errorf("enum %s: only u8 is supported", e.Name)
		}
	}
	codes := map[int]string{}
	for _, e := range append(append([]*errorCode(nil), s.errors...), s.reserved...) {
		if other := codes[e.Number]; other != "" {
			return fmt.Errorf("errors %s and %s have the same number %d", other, e.Name, e.Number)
		}
		codes[e.Number] = e.Name
	}
	details := map[string]bool{}
	for _, f := range s.structs["error"].Tagged {
		details[f.Name] = true
	}
	for _, c := range s.commands {
		for _, name := range c.Errors {
			if !slices.ContainsFunc(s.errors, func(e *errorCode) bool { return e.Name == name }) {
				return fmt.Errorf("%s: no error %s", c.Name, name)
			}
		}
	}
	for _, e := range s.errors {
		if e.Text == "" || e.Doc == "" {
			return fmt.Errorf("error %s: text and doc are needed", e.Name)
		}
		for _, d := range e.Details {
			if !details[d] {
				return fmt.Errorf("error %s: the error structure has no detail %q", e.Name, d)
			}
		}
	}
	return nil
}

func checkStructure(st *structure) error {
	seen := map[string]bool{}
	for i, f := range append(append([]*field(nil), st.Fields...), st.Tagged...) {
		if f.Doc == "" {
			return fmt.Errorf("%s.%s: a field needs a doc", st.Name, f.Name)
		}
		if seen[f.Name] {
			return fmt.Errorf("%s.%s is there twice", st.Name, f.Name)
		}
		seen[f.Name] = true
		tagged := i >= len(st.Fields)
		if tagged != (f.Tag != nil) {
			return fmt.Errorf("%s.%s: tagged fields have a tag, others have none", st.Name, f.Name)
		}
		// An unknown tag is skipped by its size, so tags may grow; their order on the wire is that of their numbers.
		if tagged && i > len(st.Fields) && *st.Tagged[i-len(st.Fields)-1].Tag >= *f.Tag {
			return fmt.Errorf("%s.%s: tags must rise", st.Name, f.Name)
		}
	}
	return nil
}
