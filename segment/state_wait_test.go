package segment

import (
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// eagerOwner appends from within Advanced.
type eagerOwner struct {
	rigOwner
	more int
}

func (o *eagerOwner) Advanced(l *Log) {
	for ; o.more > 0; o.more-- {
		if o.tryAppend(1, 100<<10, core.DurabilitySync) != nil {
			return
		}
	}
}

// What the owner appends when a chunk has become durable may push that chunk out
// of memory. The state that the chunk carries is written all the same.
func TestStateOfAnEvictedChunk(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.store.CacheBytes, o.store.StateBytes = 256<<10, 1<<10 })
	r.serve()
	o := &eagerOwner{rigOwner: rigOwner{rig: r, id: 1}}
	o.log = r.store.CreateLog(rigIdentity(1), r.options.log, o)
	o.append(1, 100)
	r.settle()
	r.clock.advance(1e6)
	o.append(1, 100<<10)
	r.store.Flush(r.clock.mono) // on its way to the segment
	r.store.Tick(r.clock.mono)  // takes the state
	if !o.log.stateBusy {
		t.Fatal("no state was taken")
	}
	o.more = 2
	r.settle()
	if o.more > 0 {
		t.Fatal("nothing was appended from within")
	}
	for range 3 {
		r.tick(1e6)
	}
	if r.store.Stats().StatesWritten == 0 || o.log.stateBusy {
		t.Errorf("%d states were written, one is on its way: %v", r.store.Stats().StatesWritten, o.log.stateBusy)
	}
}
