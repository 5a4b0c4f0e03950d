package group

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// A group's record is everything of it that is stored, as one value:
//
//	version u8 | kind u8 | last, epoch, empty since: uvarint
//	members uvarint, each: id, instance, client, host | epoch, session ms, rebalance ms, version | away u8 | pattern | names
//	topics uvarint, each: id 16 bytes | name | partitions uvarint, each
//	  of a stream group: holder+1, target+1 (places in the list of members) | epoch when held
//	  of a queue group: sharers uvarint, 0 for all members that read the topic, each: place+1
//
// Texts are a uvarint length and bytes, numbers are uvarints.
const recordVersion = 1

// AppendRecord appends the record to b.
func (g *Group) AppendRecord(b []byte) []byte {
	b = append(b, recordVersion, byte(g.Kind))
	for _, n := range []int64{g.Last, g.Epoch, g.EmptySince} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(len(g.Members)))
	place := make(map[*Member]uint64, len(g.Members)+1)
	for i, m := range g.Members {
		place[m] = uint64(i) + 1
		for _, text := range []string{m.ID, m.Instance, m.Client, m.Host} {
			b = appendText(b, text)
		}
		for _, n := range []int64{m.Epoch, m.Session / int64(time.Millisecond), m.Rebalance / int64(time.Millisecond), m.Version} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		away := byte(0)
		if m.Away {
			away = 1
		}
		b = append(b, away)
		b = appendText(b, m.Pattern)
		b = binary.AppendUvarint(b, uint64(len(m.Names)))
		for _, name := range m.Names {
			b = appendText(b, name)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(g.Topics)))
	for _, t := range g.Topics {
		b = append(b, t.ID[:]...)
		b = appendText(b, t.Name)
		b = binary.AppendUvarint(b, uint64(len(t.Partitions)))
		readers := -1
		if g.Kind == Queue {
			readers = len(g.readers(t))
		}
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if g.Kind == Queue {
				b = appendShared(b, p, place, readers)
				continue
			}
			b = binary.AppendUvarint(b, place[p.Holder])
			b = binary.AppendUvarint(b, place[p.Target])
			if p.Holder != nil {
				b = binary.AppendUvarint(b, uint64(p.Epoch))
			}
		}
	}
	return b
}

func appendShared(b []byte, p *Partition, place map[*Member]uint64, readers int) []byte {
	if len(p.Shared) == readers {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Shared)))
	for _, m := range p.Shared {
		b = binary.AppendUvarint(b, place[m])
	}
	return b
}

func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// ParseRecord makes a group of its record. Every member counts as heard of now.
func ParseRecord(name string, b []byte, now int64) (*Group, error) {
	r := recordReader{b: b}
	if version := r.byte(); version != recordVersion {
		return nil, fmt.Errorf("record of group %s: version %d, and this build reads %d", core.Quote(name), version, recordVersion)
	}
	g := &Group{Name: name, Kind: Kind(r.byte()), WeightMax: core.GroupRecordBytesMax, SharesMax: core.GroupSharesMax}
	g.Last, g.Epoch, g.EmptySince = r.int(), r.int(), r.int()
	for n := r.count(); n > 0 && !r.bad; n-- {
		m := &Member{ID: r.text(), Instance: r.text(), Client: r.text(), Host: r.text(), Heard: now}
		m.Epoch, m.Session, m.Rebalance, m.Version = r.int(), r.int()*int64(time.Millisecond), r.int()*int64(time.Millisecond), r.int()
		m.Away = r.byte() == 1
		m.Pattern = r.text()
		for k := r.count(); k > 0 && !r.bad; k-- {
			m.Names = append(m.Names, r.text())
		}
		var err error
		if m.pattern, err = compile(m.Pattern); err != nil {
			return nil, fmt.Errorf("record of group %s: %w", core.Quote(name), err)
		}
		g.Members = append(g.Members, m)
	}
	for n := r.count(); n > 0 && !r.bad; n-- {
		t := &Topic{}
		copy(t.ID[:], r.bytes(uint64(len(t.ID))))
		t.Name = r.text()
		var readers []*Member
		if g.Kind == Queue {
			readers = g.readers(t)
		}
		for k := r.count(); k > 0 && !r.bad; k-- {
			if g.Kind == Queue {
				t.Partitions = append(t.Partitions, Partition{Shared: r.shared(g, readers)})
				continue
			}
			p := Partition{Holder: r.member(g), Target: r.member(g)}
			if p.Holder != nil {
				p.Epoch = r.int()
			}
			t.Partitions = append(t.Partitions, p)
		}
		g.Topics = append(g.Topics, t)
	}
	if r.bad || len(r.b) != 0 {
		return nil, fmt.Errorf("record of group %s: damaged, %d of %d bytes are left over", core.Quote(name), len(r.b), len(b))
	}
	for _, m := range g.Members {
		if g.leaving(m) {
			m.MoveBy = now + m.Rebalance
		}
	}
	return g, nil
}

// recordReader reads values one after the other; after a failure it gives zeros.
type recordReader struct {
	b   []byte
	bad bool
}

func (r *recordReader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *recordReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *recordReader) int() int64 {
	n, width := binary.Uvarint(r.b)
	if r.bad || width <= 0 || n > 1<<62 {
		r.bad = true
		return 0
	}
	r.b = r.b[width:]
	return int64(n)
}

// count reads how many values follow: each takes a byte at least.
func (r *recordReader) count() int64 {
	n := r.int()
	if n > int64(len(r.b)) {
		r.bad = true
		return 0
	}
	return n
}

func (r *recordReader) text() string { return string(r.bytes(uint64(r.int()))) }

// shared reads who shares a partition.
func (r *recordReader) shared(g *Group, readers []*Member) []*Member {
	n := r.count()
	if n == 0 {
		return slices.Clone(readers)
	}
	list := make([]*Member, 0, n)
	for ; n > 0 && !r.bad; n-- {
		m := r.member(g)
		r.bad = r.bad || m == nil
		list = append(list, m)
	}
	return list
}

func (r *recordReader) member(g *Group) *Member {
	n := r.int()
	if n > int64(len(g.Members)) {
		r.bad = true
	}
	if n == 0 || r.bad {
		return nil
	}
	return g.Members[n-1]
}
