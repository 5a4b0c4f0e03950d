package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pulsemq/pulsemq/core"
)

// commandVersion is the version of every command's layout that this build writes.
const commandVersion = 1

// Kinds of commands on disk; numbers are never reused.
const (
	kindTopicCreate     = 1
	kindTopicDelete     = 2
	kindTopicAlter      = 3
	kindProducerReserve = 4
	kindNodeRegister    = 5
	kindFeatureFinalize = 6
)

var (
	// ErrCommandUnknown reports a command of a version or kind that this build does
	// not know: it was written by a newer one. The replay must not go on behind it.
	ErrCommandUnknown = errors.New("metadata command of an unknown version or kind: this data was written by a newer build; start that one")
	// ErrCommandMalformed reports bytes that are no command.
	ErrCommandMalformed = errors.New("metadata command is malformed")
)

// Command is one change of the metadata.
//
//	version u8 | kind u8 | the fields of the kind in the order of its struct
type Command interface {
	kind() uint8
	append(b []byte) []byte
	decode(r *reader)
}

// Setting is one key of a topic's configuration with its value as given.
type Setting struct {
	Key, Value string
}

// TopicCreate makes a topic. Ids of its partitions are given out by Apply.
type TopicCreate struct {
	Topic      core.TopicID
	Name       string
	Partitions uint32
	Replicas   uint16
	Leader     core.NodeID // the node that holds the partitions
	Overrides  []Setting   // in ascending order of keys
}

// TopicDelete deletes a topic.
type TopicDelete struct {
	Topic core.TopicID
}

// TopicAlter changes a topic's settings or adds partitions, all together.
type TopicAlter struct {
	Topic      core.TopicID
	Set        []Setting
	Unset      []string
	Partitions uint32 // the new count; 0 leaves it
	Leader     core.NodeID
}

// ProducerReserve takes a block of producer ids for a node.
type ProducerReserve struct {
	Node  core.NodeID
	Count uint32
}

// NodeRegister binds a node id to the incarnation of its data folder.
type NodeRegister struct {
	Node        core.NodeID
	Incarnation [16]byte
}

// FeatureFinalize raises the feature level: from then on nodes may write what it allows.
type FeatureFinalize struct {
	Level uint16
}

// AppendCommand appends the command's encoding to b.
func AppendCommand(b []byte, c Command) []byte {
	return c.append(append(b, commandVersion, c.kind()))
}

// ParseCommand reads what AppendCommand wrote.
func ParseCommand(b []byte) (Command, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrCommandMalformed, len(b))
	}
	if b[0] != commandVersion {
		return nil, fmt.Errorf("%w: version %d, this build knows version %d", ErrCommandUnknown, b[0], commandVersion)
	}
	var c Command
	switch b[1] {
	case kindTopicCreate:
		c = new(TopicCreate)
	case kindTopicDelete:
		c = new(TopicDelete)
	case kindTopicAlter:
		c = new(TopicAlter)
	case kindProducerReserve:
		c = new(ProducerReserve)
	case kindNodeRegister:
		c = new(NodeRegister)
	case kindFeatureFinalize:
		c = new(FeatureFinalize)
	default:
		return nil, fmt.Errorf("%w: kind %d", ErrCommandUnknown, b[1])
	}
	r := reader{rest: b[2:]}
	c.decode(&r)
	if r.short {
		return nil, fmt.Errorf("%w: kind %d is cut short", ErrCommandMalformed, b[1])
	}
	if len(r.rest) != 0 {
		return nil, fmt.Errorf("%w: kind %d has %d bytes too many", ErrCommandMalformed, b[1], len(r.rest))
	}
	return c, nil
}

func (*TopicCreate) kind() uint8     { return kindTopicCreate }
func (*TopicDelete) kind() uint8     { return kindTopicDelete }
func (*TopicAlter) kind() uint8      { return kindTopicAlter }
func (*ProducerReserve) kind() uint8 { return kindProducerReserve }
func (*NodeRegister) kind() uint8    { return kindNodeRegister }
func (*FeatureFinalize) kind() uint8 { return kindFeatureFinalize }

func (c *TopicCreate) append(b []byte) []byte {
	b = appendText(append(b, c.Topic[:]...), c.Name)
	b = binary.BigEndian.AppendUint32(b, c.Partitions)
	b = binary.BigEndian.AppendUint16(b, c.Replicas)
	b = binary.BigEndian.AppendUint32(b, uint32(c.Leader))
	return appendSettings(b, c.Overrides)
}

func (c *TopicCreate) decode(r *reader) {
	c.Topic, c.Name, c.Partitions, c.Replicas = r.id(), r.text(), r.u32(), r.u16()
	c.Leader, c.Overrides = core.NodeID(r.u32()), r.settings()
}

func (c *TopicDelete) append(b []byte) []byte { return append(b, c.Topic[:]...) }
func (c *TopicDelete) decode(r *reader)       { c.Topic = r.id() }

func (c *TopicAlter) append(b []byte) []byte {
	b = appendSettings(append(b, c.Topic[:]...), c.Set)
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.Unset)))
	for _, key := range c.Unset {
		b = appendText(b, key)
	}
	b = binary.BigEndian.AppendUint32(b, c.Partitions)
	return binary.BigEndian.AppendUint32(b, uint32(c.Leader))
}

func (c *TopicAlter) decode(r *reader) {
	c.Topic, c.Set = r.id(), r.settings()
	for range r.count(4) {
		c.Unset = append(c.Unset, r.text())
	}
	c.Partitions, c.Leader = r.u32(), core.NodeID(r.u32())
}

func (c *ProducerReserve) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(c.Node))
	return binary.BigEndian.AppendUint32(b, c.Count)
}

func (c *ProducerReserve) decode(r *reader) { c.Node, c.Count = core.NodeID(r.u32()), r.u32() }

func (c *NodeRegister) append(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(c.Node)), c.Incarnation[:]...)
}

func (c *NodeRegister) decode(r *reader) { c.Node, c.Incarnation = core.NodeID(r.u32()), r.id() }

func (c *FeatureFinalize) append(b []byte) []byte { return binary.BigEndian.AppendUint16(b, c.Level) }
func (c *FeatureFinalize) decode(r *reader)       { c.Level = r.u16() }

func appendText(b []byte, text string) []byte {
	core.Assert(len(text) <= math.MaxUint32, "a text of the metadata is short")
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}

func appendSettings(b []byte, settings []Setting) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(settings)))
	for _, s := range settings {
		b = appendText(appendText(b, s.Key), s.Value)
	}
	return b
}

// reader takes fields off the front of rest. After it has come up short every
// field is zero and short stays set, so that callers check once at the end.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || n > len(r.rest) {
		r.short, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) id() (id [16]byte) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) text() string {
	n := r.u32()
	if uint64(n) > uint64(len(r.rest)) {
		r.take(len(r.rest) + 1)
		return ""
	}
	return string(r.take(int(n)))
}

// count reads a number of items of at least itemBytes each, so that a corrupt
// count cannot make the caller allocate what is not there.
func (r *reader) count(itemBytes int) int {
	n := r.u32()
	if uint64(n)*uint64(itemBytes) > uint64(len(r.rest)) {
		r.take(len(r.rest) + 1)
		return 0
	}
	return int(n)
}

func (r *reader) settings() []Setting {
	n := r.count(8)
	if n == 0 {
		return nil
	}
	settings := make([]Setting, n)
	for i := range settings {
		settings[i] = Setting{r.text(), r.text()}
	}
	return settings
}
