package netio

import (
	"testing"

	"pgregory.net/rapid"
)

// The table against a Go map, with ids that meet in their homes.
func TestPendingsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table pendings
		model := make(map[uint64]uint32)
		id := rapid.OneOf(rapid.Uint64Range(0, 20), rapid.Uint64())
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				entry := pending{id: id.Draw(t, "id"), bytes: rapid.Uint32().Draw(t, "bytes")}
				if _, ok := model[entry.id]; ok {
					return
				}
				table.add(entry)
				model[entry.id] = entry.bytes
			},
			"remove": func(t *rapid.T) {
				id := id.Draw(t, "id")
				got, ok := table.remove(id)
				if want, there := model[id]; ok != there || got.bytes != want {
					t.Fatalf("remove(%d) = %v %v, want %d %v", id, got, ok, want, there)
				}
				delete(model, id)
			},
			"": func(t *rapid.T) {
				if table.count != len(model) {
					t.Fatalf("count %d, want %d", table.count, len(model))
				}
				for id, bytes := range model {
					if got := table.find(id); got == nil || got.bytes != bytes {
						t.Fatalf("find(%d) = %v, want %d bytes", id, got, bytes)
					}
				}
			},
		})
	})
}

func TestPendingsAllocatesNothing(t *testing.T) {
	var table pendings
	next := uint64(0)
	for range 16 {
		table.add(pending{id: next})
		next++
	}
	if n := testing.AllocsPerRun(1000, func() {
		table.remove(next - 16)
		table.add(pending{id: next})
		next++
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// A session that has become quiet keeps nothing of a burst.
func TestQuietSessionRests(t *testing.T) {
	b := newBench(t, benchOptions{})
	s, _ := b.connect()
	for id := range uint64(1000) {
		s.pendings.add(pending{id: id})
		s.out.data.Push(outgoing{})
	}
	for id := range uint64(1000) {
		s.pendings.remove(id)
		s.out.data.Pop()
	}
	b.reactor.Tick()
	if len(s.pendings.slots) < 1000 {
		t.Fatal("a busy session gave its memory up")
	}
	b.clock.now.Add(restTime)
	b.reactor.Tick()
	if n := len(s.pendings.slots); n > pendingSlotsKeep {
		t.Fatalf("%d places for requests are kept", n)
	}
	if s.pendings.add(pending{id: 5}); s.pendings.find(5) == nil {
		t.Fatal("a request is not found")
	}
}
