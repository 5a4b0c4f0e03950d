package shard

import (
	"math"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/cursor"
	"github.com/pulsemq/pulsemq/proto"
	"github.com/pulsemq/pulsemq/ring/mail"
)

// A take-over or a seek may come to a partition after its group was deleted, and the partition
// cannot know: it is as if the group began there. So the coordinator is told of each, and has
// what belongs to no group dropped again. A new group of the name is not touched: its epochs
// are above those of every group before it.

// groupClaim is a group that owns partitions of this shard under an epoch.
type groupClaim struct {
	group string
	epoch int64
}

// claimed notes who took a partition over. Those of one group and turn come one after the other
// and make one claim.
func (m *Machine) claimed(e *cursor.Entry) {
	if n := len(m.claims); n > 0 && m.claims[n-1].group == e.Group {
		m.claims[n-1].epoch = max(m.claims[n-1].epoch, e.Epoch)
		return
	}
	m.claims = append(m.claims, groupClaim{e.Group, e.Epoch})
}

// sendClaims tells every shard, for any may have the coordinator.
func (m *Machine) sendClaims() {
	claims := m.claims
	m.claims = nil
	for _, c := range claims {
		l := mail.Letter{Kind: mail.LetterClaim, From: m.options.Shard, Group: c.group, Owner: c.epoch}
		for shard := range m.options.Shards {
			if core.ShardID(shard) == m.options.Shard {
				m.judgeClaim(&l)
			} else {
				m.letters.Push(letterOut{core.ShardID(shard), l})
			}
		}
	}
}

// judgeClaim has a claim dropped whose group is not there, or goes.
func (m *Machine) judgeClaim(l *mail.Letter) {
	for _, c := range m.coordinators {
		p := c.partition
		if proto.PartitionForKey([]byte(l.Group), uint32(len(p.topic.Partitions))) != uint32(p.number) {
			continue
		}
		if _, err := m.serve(p.id, -1); err != nil {
			return // nobody knows which groups there are
		}
		e := c.byName[l.Group]
		if e != nil && (e.forgetting == nil || e.forgetting.before != forgetAll) {
			return
		}
		answer := mail.Letter{Kind: mail.LetterForget, From: m.options.Shard, Partition: p.id, Group: l.Group, Time: forgetAll, Owner: l.Owner}
		if l.From == m.options.Shard {
			m.forget(&answer)
			return
		}
		m.letters.Push(letterOut{l.From, answer})
		return
	}
}

// newer says whether the group has, or is about to have, an owner above an epoch.
func (cs *cursors) newer(group string, epoch int64) bool {
	if s, _ := cs.table.Get(group); s.Owner > epoch || cs.table.Begun(group) > epoch {
		return true
	}
	above := func(w *cursorWish) bool {
		e := &w.entry
		return (e.Kind == cursor.Own || e.Kind == cursor.Seek || e.Kind == cursor.Queue) && e.Epoch > epoch && e.Group == group
	}
	for _, w := range cs.gathered {
		if above(w) {
			return true
		}
	}
	for i := range cs.waiting.Len() {
		for _, w := range cs.waiting.At(i).wishes {
			if above(w) {
				return true
			}
		}
	}
	return false
}

// ownerAny is the Owner of a letter that forgets a group whoever owns it.
const ownerAny = math.MaxInt64
