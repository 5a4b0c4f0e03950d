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
