package shard

import (
	"fmt"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// turns are how many records of each partition a worker gets for so many credits of a size.
func (w *worker) turns(credits int, size uint32) map[core.PartitionID]int {
	w.n.t.Helper()
	got := map[core.PartitionID]int{}
	for range credits {
		r := w.request(mail.RequestLeaseCredit)
		r.Records = size
		w.n.send(&r)
		for range 2 {
			w.n.settle()
			answers := w.n.answers()
			for _, a := range answers {
				if a.Kind == mail.AnswerLeased && a.Err == nil && a.Conn == w.conn {
					got[a.Partition] += int(a.Body.(*mail.Leased).Records)
				}
			}
			w.take(answers)
		}
	}
	return got
}

// Partitions that have records get a member's credit in turn, however small it is: one with a backlog does not keep the
// others, nor what is tried again in them, waiting until it is done.
func TestPartitionsTakeTurns(t *testing.T) {
	const partitions, credits, window = 4, 40, 1000
	for _, members := range []uint32{1, 2} {
		for _, size := range []uint32{1, 3, 64} {
			n := newNode(t, 1)
			topic := n.create("jobs", partitions, "queue.window.max", fmt.Sprint(window))
			var workers []*worker
			for slot := range members {
				workers = append(workers, n.worker(topic.Partitions[0].ID, slot+1))
			}
			for _, p := range topic.Partitions {
				for range 60 {
					r := n.produceRequest(p.ID, batchSpec{records: 100, value: 10, producer: -1})
					n.send(&r)
				}
				n.settle()
				n.answers()
				for _, w := range workers {
					w.id = p.ID
					w.lease(0)
				}
			}
			got := map[core.PartitionID]int{}
			for range credits {
				for _, w := range workers {
					for id, records := range w.turns(1, size) {
						got[id] += records
					}
				}
			}
			even := credits * int(size*members) / partitions
			for _, p := range topic.Partitions {
				if got[p.ID] < min(even, window)*2/3 {
					t.Errorf("%d members, credits of %d: partition %d gave %d records, and even were %d: %v", members, size, p.ID, got[p.ID], even, got)
				}
			}
		}
	}
}
