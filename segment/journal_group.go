package segment

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/pulsemq/pulsemq/core"
)

const (
	// GroupHeaderBytes is the size of a journal group's header.
	GroupHeaderBytes = 64

	groupMagic   uint32 = 0x504d5147 // "PMQG"
	groupVersion uint8  = 1
)

var (
	// ErrGroupMagic reports bytes that are no group.
	ErrGroupMagic = errors.New("journal group: no group magic")
	// ErrGroupHeader reports a group header whose checksum does not match.
	ErrGroupHeader = errors.New("journal group: header checksum mismatch")
	// ErrGroupBody reports a group whose body is cut short or does not match its checksum.
	ErrGroupBody = errors.New("journal group: body checksum mismatch")
	// ErrGroupUnknown reports a group of a version that this build does not know.
	ErrGroupUnknown = errors.New("journal group: unknown version")
)

// GroupFlags say what is special about a group.
type GroupFlags uint8

const (
	// GroupRestart marks the first group after a start. Its sequence may be any above
	// its Synced, which is the last group that recovery accepted: what stands between
	// the two was cut and must never be replayed.
	GroupRestart GroupFlags = 1 << iota
	// GroupClean marks the last group of a clean stop: all before it is synced.
	GroupClean
)

// GroupHeader is the header of a journal group.
//
//	0 magic u32 | 4 version u8 | 5 flags u8 | 6 shard u16 | 8 layout u32 | 12 file generation u32 |
//	16 sequence u64 | 24 synced sequence u64 | 32 body bytes u32 | 36 body crc u32 | 40 salt u64 |
//	48 zero 12 | 60 header crc u32
type GroupHeader struct {
	Flags          GroupFlags
	Shard          core.ShardID
	Layout         uint32
	FileGeneration uint32 // rises with every recycling of the file
	Sequence       uint64 // rises by one per group of the shard; never reused
	Synced         uint64 // the highest sequence known durable when this group was issued
	Bytes          uint32 // of the body: whole frames, without the padding to 4 KiB
	BodyCRC        uint32
	Salt           uint64 // the file header's
}

// Put encodes the header into the first 64 bytes of b.
func (h *GroupHeader) Put(b []byte) {
	b = b[:GroupHeaderBytes]
	clear(b)
	binary.BigEndian.PutUint32(b[0:], groupMagic)
	b[4] = groupVersion
	b[5] = uint8(h.Flags)
	binary.BigEndian.PutUint16(b[6:], uint16(h.Shard))
	binary.BigEndian.PutUint32(b[8:], h.Layout)
	binary.BigEndian.PutUint32(b[12:], h.FileGeneration)
	binary.BigEndian.PutUint64(b[16:], h.Sequence)
	binary.BigEndian.PutUint64(b[24:], h.Synced)
	binary.BigEndian.PutUint32(b[32:], h.Bytes)
	binary.BigEndian.PutUint32(b[36:], h.BodyCRC)
	binary.BigEndian.PutUint64(b[40:], h.Salt)
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

// ParseGroupHeader decodes and verifies a group's header; the body is not looked at.
func ParseGroupHeader(b []byte) (GroupHeader, error) {
	var h GroupHeader
	if len(b) < GroupHeaderBytes || binary.BigEndian.Uint32(b) != groupMagic {
		return h, ErrGroupMagic
	}
	if binary.BigEndian.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli) {
		return h, ErrGroupHeader
	}
	h = GroupHeader{
		Flags:          GroupFlags(b[5]),
		Shard:          core.ShardID(binary.BigEndian.Uint16(b[6:])),
		Layout:         binary.BigEndian.Uint32(b[8:]),
		FileGeneration: binary.BigEndian.Uint32(b[12:]),
		Sequence:       binary.BigEndian.Uint64(b[16:]),
		Synced:         binary.BigEndian.Uint64(b[24:]),
		Bytes:          binary.BigEndian.Uint32(b[32:]),
		BodyCRC:        binary.BigEndian.Uint32(b[36:]),
		Salt:           binary.BigEndian.Uint64(b[40:]),
	}
	if b[4] != groupVersion || h.Flags&^(GroupRestart|GroupClean) != 0 || !allZero(b[48:60]) {
		return h, ErrGroupUnknown
	}
	return h, nil
}

// ParseGroup decodes the group at the start of b and verifies its body, which is
// returned as a view into b.
func ParseGroup(b []byte) (GroupHeader, []byte, error) {
	h, err := ParseGroupHeader(b)
	if err != nil {
		return h, nil, err
	}
	if uint64(len(b)) < GroupHeaderBytes+uint64(h.Bytes) {
		return h, nil, ErrGroupBody
	}
	body := b[GroupHeaderBytes : GroupHeaderBytes+int(h.Bytes)]
	if crc32.Checksum(body, castagnoli) != h.BodyCRC {
		return h, nil, ErrGroupBody
	}
	return h, body, nil
}
