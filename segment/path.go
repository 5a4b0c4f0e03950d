package segment

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// Names of files in the data folder. Names of topics never become paths.

// MetaDir holds the folder's identity.
const MetaDir = "meta"

// TopicsDir holds a folder per topic.
const TopicsDir = "topics"

// LayoutDir is the folder of the journals of one shard layout.
func LayoutDir(layout uint32) string { return fmt.Sprintf("layout-%d", layout) }

// ShardDir is the folder of one shard's journal files.
func ShardDir(layout uint32, shard core.ShardID) string {
	return path.Join(LayoutDir(layout), fmt.Sprintf("shard-%02d", shard))
}

// JournalPath is one file of a shard's journal.
func JournalPath(layout uint32, shard core.ShardID, number uint32) string {
	return path.Join(ShardDir(layout, shard), fmt.Sprintf("journal-%04d.jnl", number))
}

// PartitionDir is the folder of a partition's segments.
func PartitionDir(topic core.TopicID, number core.PartitionNumber) string {
	return path.Join(TopicsDir, topic.String(), strconv.FormatUint(uint64(number), 10))
}

// SegmentName is the stem of a segment's files.
func SegmentName(base core.Offset, segment core.SegmentNumber) string {
	var room [20 + 1 + 10]byte
	return string(appendSegmentName(room[:0], base, segment))
}

func appendSegmentName(b []byte, base core.Offset, segment core.SegmentNumber) []byte {
	b = appendDigits(b, uint64(base), 20)
	b = append(b, '-')
	return appendDigits(b, uint64(segment), 10)
}

// appendDigits appends a number with zeros before it.
func appendDigits(b []byte, n uint64, width int) []byte {
	start := len(b)
	for range width {
		b = append(b, '0')
	}
	for i := len(b) - 1; n > 0 && i >= start; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// Extensions of a segment's files.
const (
	LogExtension   = ".log"
	IndexExtension = ".index"
	StateExtension = ".state"
)

// ParseSegmentName reads what SegmentName and an extension made.
func ParseSegmentName(name string) (base core.Offset, segment core.SegmentNumber, extension string, ok bool) {
	stem, extension, found := strings.Cut(name, ".")
	if !found || len(stem) != 20+1+10 || stem[20] != '-' {
		return 0, 0, "", false
	}
	b, err := strconv.ParseInt(stem[:20], 10, 64)
	if err != nil || b < 0 {
		return 0, 0, "", false
	}
	n, err := strconv.ParseUint(stem[21:], 10, 32)
	if err != nil {
		return 0, 0, "", false
	}
	return core.Offset(b), core.SegmentNumber(n), "." + extension, true
}
