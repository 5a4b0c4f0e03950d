package segment

import (
	"errors"
	"testing"
)

// A flipped bit anywhere in the header of a synced journal group, or in that of a
// frame in it, loses nothing: the checksum says which byte it was. A flip in a
// payload is damage of exactly that frame.
func TestJournalHeaderFlipsLoseNothing(t *testing.T) {
	r := newRig(t, nil)
	owners := r.serve(16, 17)
	for range 2 {
		owners[0].append(1, 100)
		owners[1].append(2, 200)
		r.settle()
	}
	at := r.store.journal.position
	owners[0].append(1, 500)
	owners[1].append(1, 100)
	r.settle()
	middle := r.store.journal.position
	owners[0].append(1, 50) // the last group of the journal
	r.settle()
	name := r.store.journal.current.path
	base := r.fs.Kill(0)
	raw := (&rig{t: t, fs: base}).readAll(name)
	second := int64(0) // header of the second frame of the group
	for position := at + GroupHeaderBytes; ; {
		h, _, err := ParseFrame(raw[position:])
		if err != nil {
			t.Fatal(err)
		}
		if h.Partition == 17 {
			second = position
			break
		}
		position += FrameHeaderBytes + int64(h.Bytes)
	}
	for _, header := range []struct {
		name string
		at   int64
	}{{"group", at}, {"first frame", at + GroupHeaderBytes}, {"second frame", second}, {"last group", middle}, {"its frame", middle + GroupHeaderBytes}} {
		for bit := int64(0); bit < FrameHeaderBytes*8; bit += 11 { // every bit of a byte comes up
			c := *r
			c.ops = nil
			c.fs = base.Kill(0)
			place := header.at + bit/8
			c.patch(name, place, []byte{raw[place] ^ 1<<(bit%8)})
			c.start()
			if c.store.stats.JournalDamages != 1 {
				t.Fatalf("%s, bit %d: %d damages are counted", header.name, bit, c.store.stats.JournalDamages)
			}
			for i, o := range c.reopen(16, 17) {
				if end := o.log.EndOffset(); end != owners[i].log.EndOffset() || len(o.log.Damaged()) > 0 {
					t.Fatalf("%s, bit %d: partition %d ends at %d of %d, damaged %+v", header.name, bit, o.id, end, owners[i].log.EndOffset(), o.log.Damaged())
				}
				if bit%61 == 0 {
					o.append(1, 10)
					c.settle()
					o.check(0)
				}
			}
		}
	}
	for in := second + FrameHeaderBytes; in < second+FrameHeaderBytes+100; in += 17 {
		c := *r
		c.ops = nil
		c.fs = base.Kill(0)
		c.patch(name, in, []byte{raw[in] ^ 8})
		c.start()
		got := c.reopen(16, 17)
		got[0].check(0)
		var corrupt *CorruptError
		if _, err := got[1].read(4, 5, 1<<20); !errors.As(err, &corrupt) || corrupt.Start != 4 || corrupt.Next != 5 {
			t.Fatalf("payload byte %d: %v", in, err)
		}
		if got[1].log.EndOffset() != 5 {
			t.Fatalf("payload byte %d: the log ends at %d: an offset is used again", in, got[1].log.EndOffset())
		}
	}
}

// A group whose frames nobody can tell any more may have held the end of any log:
// also after a clean stop, offsets that may be used again carry a higher term.
func TestJournalDamageRaisesTheTerm(t *testing.T) {
	r := newRig(t, nil)
	o := r.serve(16)[0]
	o.append(1, 100)
	r.settle()
	at, name := r.store.journal.position, r.store.journal.current.path
	o.append(1, 100)
	r.settle()
	term := o.log.Term()
	r.stop()
	r.patch(name, at, make([]byte, GroupHeaderBytes+2*FrameHeaderBytes))
	r.kill(0)
	o = r.open(16)
	if r.store.stats.JournalDamages == 0 || o.log.Term() <= term {
		t.Fatalf("%d damages, term %d after %d", r.store.stats.JournalDamages, o.log.Term(), term)
	}
}
