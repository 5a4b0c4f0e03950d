package cluster

// tree is a persistent ordered map: with and without return a new tree that
// shares all but the path to the change, so that a View of 5,000 topics costs
// nothing to keep while the next one is made. It is an AVL tree, because names
// come from outside and must not be able to unbalance it.
type tree[K, V any] struct {
	compare func(a, b K) int
	root    *branch[K, V]
	size    int
}

// branch is a node of the tree. It is immutable once it is part of a tree.
//
// Invariants: keys of left < key < keys of right; the heights of left and right
// differ by at most one; height = 1 + the larger of them.
type branch[K, V any] struct {
	key         K
	value       V
	left, right *branch[K, V]
	height      int
}

// get returns the value of a key.
func (t tree[K, V]) get(key K) (value V, ok bool) {
	for b := t.root; b != nil; {
		switch c := t.compare(key, b.key); {
		case c < 0:
			b = b.left
		case c > 0:
			b = b.right
		default:
			return b.value, true
		}
	}
	return value, false
}

// floor returns the entry with the largest key that is not above the one given.
func (t tree[K, V]) floor(key K) (found K, value V, ok bool) {
	for b := t.root; b != nil; {
		if t.compare(key, b.key) < 0 {
			b = b.left
			continue
		}
		found, value, ok = b.key, b.value, true
		b = b.right
	}
	return found, value, ok
}

// after calls each for entries in ascending order, from the first key above the
// one given, until each returns false.
func (t tree[K, V]) after(key K, each func(K, V) bool) {
	t.root.after(t.compare, key, each)
}

func (b *branch[K, V]) after(compare func(a, b K) int, key K, each func(K, V) bool) bool {
	if b == nil {
		return true
	}
	if compare(b.key, key) <= 0 {
		return b.right.after(compare, key, each)
	}
	return b.left.after(compare, key, each) && each(b.key, b.value) && b.right.all(each)
}

// all calls each for every entry in ascending order until it returns false.
func (t tree[K, V]) all(each func(K, V) bool) { t.root.all(each) }

func (b *branch[K, V]) all(each func(K, V) bool) bool {
	return b == nil || b.left.all(each) && each(b.key, b.value) && b.right.all(each)
}

// with returns the tree with key set to value.
func (t tree[K, V]) with(key K, value V) tree[K, V] {
	added := false
	t.root = t.insert(t.root, key, value, &added)
	if added {
		t.size++
	}
	return t
}

func (t tree[K, V]) insert(b *branch[K, V], key K, value V, added *bool) *branch[K, V] {
	if b == nil {
		*added = true
		return &branch[K, V]{key: key, value: value, height: 1}
	}
	copied := *b
	switch c := t.compare(key, b.key); {
	case c < 0:
		copied.left = t.insert(b.left, key, value, added)
	case c > 0:
		copied.right = t.insert(b.right, key, value, added)
	default:
		copied.value = value
		return &copied
	}
	return copied.balance()
}

// without returns the tree without key; it is the same tree when key is not in it.
func (t tree[K, V]) without(key K) tree[K, V] {
	if _, ok := t.get(key); !ok {
		return t
	}
	t.root = t.remove(t.root, key)
	t.size--
	return t
}

func (t tree[K, V]) remove(b *branch[K, V], key K) *branch[K, V] {
	copied := *b
	switch c := t.compare(key, b.key); {
	case c < 0:
		copied.left = t.remove(b.left, key)
	case c > 0:
		copied.right = t.remove(b.right, key)
	case b.left == nil:
		return b.right
	case b.right == nil:
		return b.left
	default: // the next larger entry takes the place
		next := b.right
		for next.left != nil {
			next = next.left
		}
		copied.key, copied.value = next.key, next.value
		copied.right = t.remove(b.right, next.key)
	}
	return copied.balance()
}

func (b *branch[K, V]) depth() int {
	if b == nil {
		return 0
	}
	return b.height
}

// balance restores the invariants of a fresh copy whose children differ by at most two.
func (b *branch[K, V]) balance() *branch[K, V] {
	switch lean := b.left.depth() - b.right.depth(); {
	case lean > 1:
		left := *b.left
		if left.left.depth() < left.right.depth() {
			b.left = left.rotateLeft()
			return b.rotateRight()
		}
		b.left = &left
		return b.rotateRight()
	case lean < -1:
		right := *b.right
		if right.right.depth() < right.left.depth() {
			b.right = right.rotateRight()
			return b.rotateLeft()
		}
		b.right = &right
		return b.rotateLeft()
	}
	b.height = 1 + max(b.left.depth(), b.right.depth())
	return b
}

// rotateLeft lifts the right child; b is a fresh copy, the child is copied.
func (b *branch[K, V]) rotateLeft() *branch[K, V] {
	up := *b.right
	b.right = up.left
	b.height = 1 + max(b.left.depth(), b.right.depth())
	up.left = b
	up.height = 1 + max(up.left.depth(), up.right.depth())
	return &up
}

// rotateRight lifts the left child; b is a fresh copy, the child is copied.
func (b *branch[K, V]) rotateRight() *branch[K, V] {
	up := *b.left
	b.left = up.right
	b.height = 1 + max(b.left.depth(), b.right.depth())
	up.right = b
	up.height = 1 + max(up.left.depth(), up.right.depth())
	return &up
}
