package cluster

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check verifies the invariants of a branch and returns its height and size.
func (b *branch[K, V]) check(t *rapid.T, compare func(a, b K) int) (height, size int) {
	if b == nil {
		return 0, 0
	}
	if b.left != nil && compare(b.left.key, b.key) >= 0 || b.right != nil && compare(b.right.key, b.key) <= 0 {
		t.Fatalf("keys out of order around %v", b.key)
	}
	leftHeight, leftSize := b.left.check(t, compare)
	rightHeight, rightSize := b.right.check(t, compare)
	if b.height != 1+max(leftHeight, rightHeight) || leftHeight-rightHeight > 1 || rightHeight-leftHeight > 1 {
		t.Fatalf("branch %v: height %d over %d and %d", b.key, b.height, leftHeight, rightHeight)
	}
	return b.height, leftSize + rightSize + 1
}

// The tree against a map; every older tree must stay what it was.
func TestTreeModel(t *testing.T) {
	type version struct {
		tree  tree[int, int]
		model map[int]int
	}
	rapid.Check(t, func(t *rapid.T) {
		versions := []version{{tree[int, int]{compare: cmp.Compare[int]}, map[int]int{}}}
		keys := rapid.IntRange(0, 60)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			last := versions[len(versions)-1]
			next := version{last.tree, maps.Clone(last.model)}
			key := keys.Draw(t, "key")
			if rapid.Bool().Draw(t, "set") {
				next.tree, next.model[key] = last.tree.with(key, len(versions)), len(versions)
			} else {
				next.tree = last.tree.without(key)
				delete(next.model, key)
			}
			versions = append(versions, next)
		}
		probe := keys.Draw(t, "probe")
		for _, v := range versions {
			if _, size := v.tree.root.check(t, v.tree.compare); size != len(v.model) || v.tree.size != size {
				t.Fatalf("size %d, counted %d, want %d", v.tree.size, size, len(v.model))
			}
			want := slices.Sorted(maps.Keys(v.model))
			var all, after []int
			v.tree.all(func(k, value int) bool {
				if v.model[k] != value {
					t.Fatalf("key %d = %d, want %d", k, value, v.model[k])
				}
				all = append(all, k)
				return true
			})
			v.tree.after(probe, func(k, _ int) bool { after = append(after, k); return len(after) < 3 })
			at, exact := slices.BinarySearch(want, probe)
			next := at
			if exact {
				next++
			}
			if !slices.Equal(all, want) || !slices.Equal(after, want[next:min(next+3, len(want))]) {
				t.Fatalf("all %v, after(%d) %v, want %v", all, probe, after, want)
			}
			if _, ok := v.tree.get(probe); ok != exact {
				t.Fatalf("get(%d) = %v", probe, ok)
			}
			if found, _, ok := v.tree.floor(probe); ok != (next > 0) || ok && found != want[next-1] {
				t.Fatalf("floor(%d) = %d, %v of %v", probe, found, ok, want)
			}
		}
	})
}
