package main

import "strings"

// backend turns the model into the files of one language. A new language is a new file with one of these and one
// line in backends.
type backend interface {
	// name is the language, for messages.
	name() string
	// pattern matches the files that belong to this backend, relative to the repository; what matches and is not
	// generated is an orphan of an earlier schema.
	pattern() string
	// files makes every file. root is there for reading other sources, such as the golden vectors.
	files(s *schema, root string) ([]file, error)
}

// file is a generated file; path is relative to the repository.
type file struct {
	path string
	data []byte
}

var backends = []backend{goBackend{}, docsBackend{}}

// camel turns snake_case or UPPER_CASE into CamelCase, with id and ids as ID and IDs.
func camel(s string) string {
	var b strings.Builder
	for _, w := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == '_' || r == '.' || r == '-' }) {
		switch w {
		case "id":
			b.WriteString("ID")
		case "ids":
			b.WriteString("IDs")
		default:
			b.WriteString(strings.ToUpper(w[:1]) + w[1:])
		}
	}
	return b.String()
}

// sentence returns the text with its first letter in lower case, so that it can follow a name.
func sentence(s string) string {
	return strings.ToLower(s[:1]) + s[1:]
}

// predicate turns a structure's doc into what follows its name: "A broker." into "is a broker.", "Asks." into "asks.".
func predicate(doc string) string {
	for _, article := range []string{"A ", "An ", "The ", "One ", "Where "} {
		if strings.HasPrefix(doc, article) {
			return "is " + sentence(doc)
		}
	}
	return sentence(doc)
}

// wrap breaks text into lines of at most width bytes where it can.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		switch {
		case line == "":
			line = w
		case len(line)+1+len(w) > width:
			lines = append(lines, line)
			line = w
		default:
			line += " " + w
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
