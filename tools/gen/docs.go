package main

// docsBackend makes docs/protocol.
type docsBackend struct{}

func (docsBackend) name() string    { return "docs" }
func (docsBackend) pattern() string { return "docs/protocol/*.md" }

func (docsBackend) files(s *schema, root string) ([]file, error) {
	return nil, nil
}
