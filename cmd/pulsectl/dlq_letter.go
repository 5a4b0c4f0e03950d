package main

import (
	"strconv"
	"strings"

	pulsemq "github.com/pulsemq/pulsemq/clients/go"
	"github.com/pulsemq/pulsemq/deadletter"
	"github.com/pulsemq/pulsemq/proto"
)

// letter is a record of a dead-letter topic. Whoever wrote one without provenance, it was no queue group.
type letter struct {
	*pulsemq.Record
	provenance deadletter.Provenance
	foreign    error // why it is no dead letter
}

func letterOf(r *pulsemq.Record) letter {
	headers := make([]proto.Header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = proto.Header{Key: []byte(h.Key), Value: h.Value}
	}
	l := letter{Record: r}
	l.provenance, l.foreign = deadletter.ParseProvenance(headers)
	return l
}

// own are the headers that the record had before it died.
func (l *letter) own() (headers []pulsemq.Header) {
	for _, h := range l.Headers {
		if !strings.HasPrefix(h.Key, deadletter.HeaderPrefix) {
			headers = append(headers, h)
		}
	}
	return headers
}

// letterFilter is a condition of --filter: NAME=VALUE.
type letterFilter struct{ name, value string }

// letterFields are what --filter may name, besides header.NAME.
var letterFields = []string{"topic", "partition", "group", "reason", "attempts", "key"}

const filterHelp = `--filter NAME=VALUE keeps only the letters that have it, exactly; repeated, all must hold.
NAME is topic, partition, group, reason or attempts of the provenance (reason is the word
before the colon, such as rejected), key, or header.NAME for a header of the record.`

func parseFilters(texts []string) ([]letterFilter, error) {
	var filters []letterFilter
	for _, text := range texts {
		name, value, err := splitPair("--filter", text)
		if err != nil {
			return nil, err
		}
		header, isHeader := strings.CutPrefix(name, "header.")
		known := isHeader && header != ""
		for _, field := range letterFields {
			known = known || name == field
		}
		if !known {
			return nil, usagef("--filter %s: allowed are %s and header.NAME", text, strings.Join(letterFields, ", "))
		}
		filters = append(filters, letterFilter{name, value})
	}
	return filters, nil
}

// holds says whether a letter has it. A record without provenance has none of its fields.
func (f *letterFilter) holds(l *letter) bool {
	p := &l.provenance
	if header, is := strings.CutPrefix(f.name, "header."); is {
		for _, h := range l.Headers {
			if h.Key == header && string(h.Value) == f.value {
				return true
			}
		}
		return false
	}
	if f.name == "key" {
		return l.Key != nil && string(l.Key) == f.value
	}
	if l.foreign != nil {
		return false
	}
	switch f.name {
	case "topic":
		return p.Topic == f.value
	case "partition":
		return strconv.FormatUint(uint64(p.Partition), 10) == f.value
	case "group":
		return p.Group == f.value
	case "reason":
		return p.Reason == f.value
	}
	return strconv.FormatUint(uint64(p.Attempts), 10) == f.value
}

func allHold(filters []letterFilter, l *letter) bool {
	for i := range filters {
		if !filters[i].holds(l) {
			return false
		}
	}
	return true
}
