package proto

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// DecodeError says where bytes stop following the protocol.
type DecodeError struct {
	What    string // the message or structure being read
	Field   string
	Offset  int // from the start of the payload or batch
	Problem string
	Short   bool // the bytes end too early; more of them may be enough
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s: field %s at byte %d: %s", e.What, e.Field, e.Offset, e.Problem)
}

// Unwrap is the code that a broker answers with.
func (e *DecodeError) Unwrap() error { return CodeMalformedRequest }

// reader walks over a payload. After the first failure every read returns zero and nothing moves, so that the generated
// code checks once at the end, and inside loops.
//
// Invariant: 0 <= off <= end <= len(b). end is below len(b) only while a tagged field is read.
type reader struct {
	b   []byte
	off int
	end int
	err *DecodeError
}

func newReader(b []byte) reader { return reader{b: b, end: len(b)} }

func (r *reader) failed() bool { return r.err != nil }

func (r *reader) fail(field, problem string) {
	if r.err == nil {
		r.err = &DecodeError{Field: field, Offset: r.off, Problem: problem}
	}
}

// finish ends the reading of a whole payload.
func (r *reader) finish(what string) error {
	if r.err == nil && r.off < len(r.b) {
		r.err = &DecodeError{Field: "end", Offset: r.off, Problem: fmt.Sprintf("%d bytes too many", len(r.b)-r.off)}
	}
	return r.finishHead(what)
}

// finishHead ends the reading of what comes before bulk bytes.
func (r *reader) finishHead(what string) error {
	if r.err == nil {
		return nil
	}
	r.err.What = what
	return r.err
}

// take moves over n bytes and returns them, or nil when there are not as many.
func (r *reader) take(field string, n int) []byte {
	if r.err != nil {
		return nil
	}
	if left := r.end - r.off; n > left {
		r.fail(field, fmt.Sprintf("needs %d bytes, %d left", n, left))
		r.err.Short = r.end == len(r.b)
		return nil
	}
	b := r.b[r.off : r.off+n : r.off+n]
	r.off += n
	return b
}

func (r *reader) u8(field string) uint8 {
	if b := r.take(field, 1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16(field string) uint16 {
	if b := r.take(field, 2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32(field string) uint32 {
	if b := r.take(field, 4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64(field string) uint64 {
	if b := r.take(field, 8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) bool(field string) bool {
	v := r.u8(field)
	if v > 1 {
		r.off--
		r.fail(field, fmt.Sprintf("%d is not a bool: it is 0 or 1", v))
	}
	return v == 1
}

func (r *reader) topicID(field string) (id [16]byte) {
	copy(id[:], r.take(field, 16))
	return id
}

// uvarint reads a length, count or tag. It has one form only: padding with zero groups is refused, and so is what does
// not fit in 31 bits, because no count of anything here needs more.
func (r *reader) uvarint(field string) int {
	start := r.off
	var v uint64
	for shift := 0; ; shift += 7 {
		c := r.u8(field)
		if r.err != nil {
			return 0
		}
		if shift > 28 || shift == 28 && c > 0x07 {
			r.off = start
			r.fail(field, "a length or count that does not fit in 31 bits")
			return 0
		}
		if c < 0x80 {
			if c == 0 && shift > 0 {
				r.off = start
				r.fail(field, "a length or count with needless zero bytes")
				return 0
			}
			return int(v | uint64(c)<<shift)
		}
		v |= uint64(c&0x7f) << shift
	}
}

func (r *reader) bytes(field string) []byte {
	return r.take(field, r.uvarint(field))
}

// string copies: a string that lives on in a map must not keep a network buffer alive or change with it.
func (r *reader) string(field string) string {
	b := r.bytes(field)
	if !utf8.Valid(b) {
		r.off -= len(b)
		r.fail(field, "is not UTF-8")
		return ""
	}
	return string(b)
}

// count reads the number of items of a list, each of at least bytesMin bytes, so that a count which the bytes cannot
// hold costs no memory.
func (r *reader) count(field string, bytesMin int) int {
	start := r.off
	n := r.uvarint(field)
	if left := r.end - r.off; n > left/bytesMin {
		r.off = start
		r.fail(field, fmt.Sprintf("%d items of at least %d bytes do not fit in the %d bytes left", n, bytesMin, left))
		r.err.Short = r.end == len(r.b)
		return 0
	}
	return n
}

// grow returns s with n items, keeping the items it has so that the slices inside them are used again.
func grow[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	t := make([]T, n)
	copy(t, s[:cap(s)])
	return t
}

// tagReader walks over the tagged fields that end every structure:
//
//	count uvarint | count x (tag uvarint | size uvarint | value)
//
// Tags rise; one that is not known is skipped by its size.
type tagReader struct {
	owner string
	left  int
	tag   int // -1 before the first
	end   int // where the value of tag ends
	outer int // the reader's end outside the value
}

func (r *reader) tags(owner string) tagReader {
	return tagReader{owner: owner, left: r.count(owner, 2), tag: -1}
}

// next leaves the value that was read and enters the next one.
func (t *tagReader) next(r *reader) bool {
	if t.tag >= 0 && r.err == nil {
		if r.off != t.end {
			r.fail(t.owner, fmt.Sprintf("tag %d has %d bytes too many", t.tag, t.end-r.off))
			return false
		}
		r.end = t.outer
	}
	if r.err != nil || t.left == 0 {
		return false
	}
	t.left--
	start := r.off
	tag := r.uvarint(t.owner)
	if r.err == nil && tag <= t.tag {
		r.off = start
		r.fail(t.owner, fmt.Sprintf("tag %d after tag %d: tags rise", tag, t.tag))
	}
	size := r.uvarint(t.owner)
	if left := r.end - r.off; r.err == nil && size > left {
		r.fail(t.owner, fmt.Sprintf("tag %d needs %d bytes, %d left", tag, size, left))
		r.err.Short = r.end == len(r.b)
	}
	if r.err != nil {
		return false
	}
	t.tag, t.end, t.outer = tag, r.off+size, r.end
	r.end = t.end
	return true
}

func (t *tagReader) skip(r *reader) { r.off = t.end }

// skipTags is for structures that have no tagged fields yet.
func (r *reader) skipTags(owner string) {
	if r.err != nil {
		return
	}
	tags := r.tags(owner)
	for tags.next(r) {
		tags.skip(r)
	}
}
