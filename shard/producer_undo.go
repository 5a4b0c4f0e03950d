package shard

import "github.com/pulsemq/pulsemq/core"

// A failed write takes a log back to its durable point, and with it what the
// partition remembers of producers. Reading the state back from disk would stop
// the partition for as long as that takes, so the table keeps what it had before
// each batch that is not durable yet. There are few of them in sync topics. In
// batch and none topics there can be many; beyond undoMax the oldest notes go,
// and a rollback behind them may have to forget a producer, who then begins anew.

// undoMax bounds the notes of one partition.
const undoMax = 4096

// producerUndo is what the table had before the batch at offset.
type producerUndo struct {
	offset  core.Offset
	id      core.ProducerID
	existed bool
	before  producerLast
}

// note keeps what the table has before a batch at offset is appended.
func (t *producerTable) note(id core.ProducerID, offset core.Offset) {
	if t.undo.Len() == undoMax {
		t.undoFloor = t.undo.Pop().offset + 1
	}
	u := producerUndo{offset: offset, id: id}
	if p := t.byID[id]; p != nil {
		u.existed, u.before = true, p.producerLast
	}
	t.undo.Push(u)
}

// durable forgets the notes of batches below an offset.
func (t *producerTable) durable(offset core.Offset) {
	for t.undo.Len() > 0 && t.undo.Front().offset < offset {
		t.undo.Pop()
	}
}

// rollback forgets every batch at or behind an offset.
func (t *producerTable) rollback(next core.Offset) {
	for t.undo.Len() > 0 && t.undo.At(t.undo.Len()-1).offset >= next {
		u := t.undo.PopBack()
		p := t.byID[u.id]
		switch {
		case p == nil: // dropped meanwhile, for its silence or for room
		case u.existed:
			p.producerLast = u.before
		default:
			t.remove(p)
		}
	}
	if t.undoFloor > next { // notes are missing: what is left tells most of it
		for p := t.oldest; p != nil; {
			following := p.next
			for p.count > 0 && p.batches[p.count-1].offset >= next {
				p.count--
			}
			if p.count == 0 {
				t.remove(p)
			}
			p = following
		}
	}
	t.undoFloor = 0
}

func (t *producerTable) remove(p *producer) {
	t.unlink(p)
	delete(t.byID, p.id)
}
