package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pulsemq/pulsemq/core"
	"go.yaml.in/yaml/v3"
)

// fileBytesMax bounds a configuration file; the whole of CONFIG.md is a tenth of it.
const fileBytesMax = 1 << 20

// readFile reads a YAML file of nested or dotted keys. It walks the document's
// nodes instead of decoding into values: so a value stays as it was written
// (0755, 1e3 and yes mean different things to YAML), and its line is known.
func readFile(path string) ([]core.Setting, core.Faults) {
	refuse := func(err error) ([]core.Setting, core.Faults) {
		return nil, core.Faults{{Key: "--config", Value: path, Problem: err.Error()}}
	}
	file, err := os.Open(path)
	if err != nil {
		return refuse(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err != nil {
		return refuse(err)
	}
	if len(text) > fileBytesMax {
		return refuse(fmt.Errorf("the file is larger than %v", core.Size(fileBytesMax)))
	}
	return readYAML(printable(path), string(text))
}

// readYAML is readFile behind the file; name stands in the sources.
func readYAML(name, text string) ([]core.Setting, core.Faults) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, further yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, core.Faults{{Key: name, Problem: fmt.Sprintf("not YAML: %s", core.Quote(err.Error()))}}
	}
	w := walker{name: name, lines: make(map[string]int)}
	w.walk("", document.Content[0])
	if err := decoder.Decode(&further); !errors.Is(err, io.EOF) {
		w.refuse(name, &further, "wants one YAML document, there is more behind the first")
	}
	return w.settings, w.faults
}

// walker flattens one document.
type walker struct {
	name     string
	lines    map[string]int // of each key seen
	settings []core.Setting
	faults   core.Faults
}

func (w *walker) source(node *yaml.Node) string { return fmt.Sprintf("%s:%d", w.name, node.Line) }

func (w *walker) refuse(key string, node *yaml.Node, problem string) {
	w.faults = append(w.faults, core.Fault{Key: key, Source: w.source(node), Problem: problem})
}

func (w *walker) walk(key string, node *yaml.Node) {
	switch {
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			name, value := node.Content[i], node.Content[i+1]
			if name.Kind != yaml.ScalarNode || name.Tag == "!!merge" {
				w.refuse(key, name, "wants names of keys")
				continue
			}
			below := name.Value
			if key != "" {
				below = key + "." + name.Value
			}
			w.walk(below, value)
		}
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null" && key == "":
		// A document of comments only.
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		w.refuse(key, node, "has no value")
	case node.Kind == yaml.ScalarNode && key != "":
		if line, twice := w.lines[key]; twice {
			w.refuse(key, node, fmt.Sprintf("is set twice, also on line %d", line))
			return
		}
		w.lines[key] = node.Line
		w.settings = append(w.settings, core.Setting{Key: key, Value: node.Value, Source: w.source(node)})
	case key == "":
		w.refuse(w.name, node, "wants keys and values, such as network.port: 9090")
	default:
		// Lists mean nothing here, and an alias could stand for millions of nodes.
		w.refuse(key, node, "wants one value, not a list or an alias")
	}
}
