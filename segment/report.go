package segment

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// Report writes what the offline readers find, one line each: as text for people,
// or as JSON lines, where the field "line" says what a line is.
type Report struct {
	out  *bufio.Writer
	json bool
	err  error

	// Damages, Warnings and Torn count the lines of those kinds.
	Damages, Warnings, Torn int
}

// NewReport makes a report that writes text or JSON lines.
func NewReport(w io.Writer, asJSON bool) *Report {
	return &Report{out: bufio.NewWriterSize(w, 64<<10), json: asJSON}
}

// Flush writes out what is buffered and returns the first error of the writer.
func (r *Report) Flush() error {
	if err := r.out.Flush(); r.err == nil {
		r.err = err
	}
	return r.err
}

type reportLine interface{ text() string }

func (r *Report) add(line reportLine) {
	if r.err != nil {
		return
	}
	if r.json {
		b, err := json.Marshal(line)
		if err != nil {
			r.err = err
			return
		}
		_, r.err = r.out.Write(append(b, '\n'))
		return
	}
	if _, r.err = r.out.WriteString(line.text()); r.err == nil {
		r.err = r.out.WriteByte('\n')
	}
}

// damage reports bytes that are not what was stored.
func (r *Report) damage(l DamageLine) {
	l.Line = "damage"
	if l.Torn {
		r.Torn++
	} else {
		r.Damages++
	}
	r.add(&l)
}

// damaged reports damage of a file as a whole.
func (r *Report) damaged(file string, format string, args ...any) {
	r.damage(DamageLine{File: file, What: fmt.Sprintf(format, args...)})
}

// warn reports what is odd and loses nothing.
func (r *Report) warn(file string, format string, args ...any) {
	r.Warnings++
	r.add(&WarningLine{Line: "warning", File: file, What: fmt.Sprintf(format, args...)})
}

// FileLine describes a file by its header.
type FileLine struct {
	Line           string           `json:"line"` // "file"
	File           string           `json:"file"`
	Kind           string           `json:"kind"`
	Bytes          int64            `json:"bytes"`
	Incarnation    string           `json:"incarnation"`
	Topic          string           `json:"topic_id,omitempty"`
	Partition      core.PartitionID `json:"partition_id,omitempty"`
	Number         uint32           `json:"partition"`
	Segment        uint32           `json:"segment,omitempty"`
	BaseOffset     core.Offset      `json:"base_offset"`
	BaseIndex      core.Index       `json:"base_index"`
	Layout         uint32           `json:"layout,omitempty"`
	Shard          uint16           `json:"shard"`
	FileNumber     uint32           `json:"file_number,omitempty"`
	FileGeneration uint32           `json:"file_generation,omitempty"`
	ReplacesNext   core.Index       `json:"replaces_next,omitempty"`
	CleanNext      core.Offset      `json:"clean_next,omitempty"`
}

// String names the kind of file as the offline tools print it.
func (k FileKind) String() string {
	switch k {
	case FileJournal:
		return "journal"
	case FileSegment:
		return "segment"
	case FileIndex:
		return "index"
	case FileState:
		return "state"
	case FileMeta:
		return "meta"
	case FileHeld:
		return "held"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

func newFileLine(file string, size int64, h *FileHeader) *FileLine {
	return &FileLine{
		Line: "file", File: file, Kind: h.Kind.String(), Bytes: size, Incarnation: hex.EncodeToString(h.Incarnation[:]),
		Topic: h.Topic.String(), Partition: h.Partition, Number: uint32(h.Number), Segment: uint32(h.Segment), BaseOffset: h.BaseOffset,
		BaseIndex: h.BaseIndex, Layout: h.Layout, Shard: uint16(h.Shard), FileNumber: h.FileNumber, FileGeneration: h.FileGeneration,
		ReplacesNext: h.ReplacesNext, CleanNext: h.Clean.Next(),
	}
}

func (l *FileLine) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %d bytes, incarnation %s", l.File, l.Kind, l.Bytes, l.Incarnation)
	switch l.Kind {
	case "journal":
		fmt.Fprintf(&b, ", layout %d, shard %d, file %d, generation %d", l.Layout, l.Shard, l.FileNumber, l.FileGeneration)
	case "meta":
	default:
		fmt.Fprintf(&b, ", topic %s, partition %d (id %d), segment %d, base offset %d, base index %d",
			l.Topic, l.Number, l.Partition, l.Segment, l.BaseOffset, l.BaseIndex)
		if l.ReplacesNext > 0 {
			fmt.Fprintf(&b, ", compacted: replaces indexes [%d, %d), clean below offset %d", l.BaseIndex, l.ReplacesNext, l.CleanNext)
		}
	}
	return b.String()
}

// FrameLine describes one frame.
type FrameLine struct {
	Line       string           `json:"line"` // "frame"
	File       string           `json:"file"`
	Position   int64            `json:"position"`
	Kind       string           `json:"kind"`
	Partition  core.PartitionID `json:"partition_id"`
	Index      core.Index       `json:"index"`
	Term       core.Term        `json:"term"`
	Generation core.Generation  `json:"generation"`
	BaseOffset core.Offset      `json:"base_offset"`
	NextOffset core.Offset      `json:"next_offset"` // [base, next)
	Bytes      uint32           `json:"bytes"`       // of the payload
	AppendTime string           `json:"append_time,omitempty"`
	Detail     string           `json:"detail,omitempty"` // what a control, mark or checkpoint says
	Batches    []BatchLine      `json:"batches,omitempty"`
}

// BatchLine describes one record batch of a frame.
type BatchLine struct {
	BaseOffset    int64  `json:"base_offset"`
	LastOffset    int64  `json:"last_offset"`
	Epoch         int32  `json:"epoch"`
	Records       int32  `json:"records"`
	Codec         string `json:"codec"`
	Bytes         int    `json:"bytes"`
	AppendTime    bool   `json:"append_time"` // whose clock: the broker's at append, else the producer's
	BaseTimestamp int64  `json:"base_timestamp"`
	MaxTimestamp  int64  `json:"max_timestamp"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	BaseSequence  int32  `json:"base_sequence"`
	Problem       string `json:"problem,omitempty"`
}

func (l *FrameLine) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%10d  %-10s", l.Position, l.Kind)
	if l.NextOffset > l.BaseOffset {
		fmt.Fprintf(&b, " offsets [%d, %d)", l.BaseOffset, l.NextOffset)
	}
	fmt.Fprintf(&b, " partition id %d index %d term %d generation %d %d bytes", l.Partition, l.Index, l.Term, l.Generation, l.Bytes)
	if l.AppendTime != "" {
		fmt.Fprintf(&b, " appended %s", l.AppendTime)
	}
	if l.Detail != "" {
		fmt.Fprintf(&b, " %s", l.Detail)
	}
	for _, batch := range l.Batches {
		clock := "create"
		if batch.AppendTime {
			clock = "append"
		}
		fmt.Fprintf(&b, "\n            batch      offsets [%d, %d) epoch %d, %d records, %s, %d bytes, %s time %d to %d",
			batch.BaseOffset, batch.LastOffset+1, batch.Epoch, batch.Records, batch.Codec, batch.Bytes, clock, batch.BaseTimestamp, batch.MaxTimestamp)
		if batch.ProducerID >= 0 {
			fmt.Fprintf(&b, ", producer %d epoch %d sequence %d", batch.ProducerID, batch.ProducerEpoch, batch.BaseSequence)
		}
		if batch.Problem != "" {
			fmt.Fprintf(&b, ", PROBLEM: %s", batch.Problem)
		}
	}
	return b.String()
}

// GroupLine describes a journal group; its frames follow as lines of their own.
type GroupLine struct {
	Line     string `json:"line"` // "group"
	File     string `json:"file"`
	Position int64  `json:"position"`
	Sequence uint64 `json:"sequence"`
	Synced   uint64 `json:"synced"`
	Bytes    uint32 `json:"bytes"`
	Restart  bool   `json:"restart,omitempty"` // the first after a start
	Clean    bool   `json:"clean,omitempty"`   // the last of a clean stop
}

func newGroupLine(name string, position int64, h *GroupHeader) *GroupLine {
	return &GroupLine{Line: "group", File: name, Position: position, Sequence: h.Sequence, Synced: h.Synced, Bytes: h.Bytes,
		Restart: h.Flags&GroupRestart != 0, Clean: h.Flags&GroupClean != 0}
}

func (l *GroupLine) text() string {
	text := fmt.Sprintf("%10d  group      sequence %d, synced up to %d, %d bytes", l.Position, l.Sequence, l.Synced, l.Bytes)
	if l.Restart {
		text += ", first after a start"
	}
	if l.Clean {
		text += ", last of a clean stop"
	}
	return text
}

// EntryLine is one entry of an index.
type EntryLine struct {
	Line         string      `json:"line"` // "entry"
	File         string      `json:"file"`
	Offset       core.Offset `json:"offset"`
	Index        core.Index  `json:"index"`
	Term         core.Term   `json:"term"`
	Position     int64       `json:"position"`
	MaxTimestamp *int64      `json:"max_timestamp_before"` // null before any record
}

func (l *EntryLine) text() string {
	before := "none"
	if l.MaxTimestamp != nil {
		before = fmt.Sprint(*l.MaxTimestamp)
	}
	return fmt.Sprintf("%10d  entry      offset %d index %d term %d, max timestamp before: %s", l.Position, l.Offset, l.Index, l.Term, before)
}

// IndexLine is an index's summary.
type IndexLine struct {
	Line               string      `json:"line"` // "index"
	File               string      `json:"file"`
	Entries            int         `json:"entries"`
	End                int64       `json:"end"`
	NextOffset         core.Offset `json:"next_offset"`
	LastIndex          core.Index  `json:"last_index"`
	MaxTimestamp       *int64      `json:"max_timestamp"`
	MaxTimestampOffset core.Offset `json:"max_timestamp_frame"`
	AppendTimeLast     string      `json:"append_time_last,omitempty"`
	CursorBytes        int64       `json:"cursor_bytes,omitempty"`
}

func (l *IndexLine) text() string {
	most := "none"
	if l.MaxTimestamp != nil {
		most = fmt.Sprintf("%d in the frame at offset %d", *l.MaxTimestamp, l.MaxTimestampOffset)
	}
	return fmt.Sprintf("            index      %d entries up to position %d, next offset %d, last index %d, max timestamp %s, last append %s, %d bytes of cursors",
		l.Entries, l.End, l.NextOffset, l.LastIndex, most, l.AppendTimeLast, l.CursorBytes)
}

// StateLine is what a state file holds.
type StateLine struct {
	Line       string          `json:"line"` // "state"
	File       string          `json:"file"`
	Index      core.Index      `json:"index"`
	Term       core.Term       `json:"term"`
	Generation core.Generation `json:"generation"`
	Segment    uint32          `json:"segment"`
	Position   int64           `json:"position"`
	NextOffset core.Offset     `json:"next_offset"`
	LogStart   core.Offset     `json:"log_start_offset"`
	Epochs     []EpochLine     `json:"epochs"`
	OwnerBytes int             `json:"owner_bytes"`
}

// EpochLine is one entry of an epoch table.
type EpochLine struct {
	Epoch  core.Term   `json:"epoch"`
	Index  core.Index  `json:"start_index"`
	Offset core.Offset `json:"start_offset"`
}

func (l *StateLine) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "            state      at index %d term %d generation %d, segment %d position %d, log start %d, next offset %d, owner's part %d bytes",
		l.Index, l.Term, l.Generation, l.Segment, l.Position, l.LogStart, l.NextOffset, l.OwnerBytes)
	for _, e := range l.Epochs {
		fmt.Fprintf(&b, "\n            epoch %d starts at index %d, offset %d", e.Epoch, e.Index, e.Offset)
	}
	return b.String()
}

// DamageLine is a place that does not hold what was stored there. Torn says that
// it was never known durable: a crash cut it, and recovery cuts it off.
type DamageLine struct {
	Line        string           `json:"line"` // "damage"
	File        string           `json:"file"`
	Start       int64            `json:"start"` // positions [start, end); both 0: the file as a whole
	End         int64            `json:"end"`
	Torn        bool             `json:"torn"`
	What        string           `json:"what"`
	Partition   core.PartitionID `json:"partition_id,omitempty"`
	IndexFirst  core.Index       `json:"index_first,omitempty"`
	IndexNext   core.Index       `json:"index_next,omitempty"`
	OffsetFirst *core.Offset     `json:"offset_first,omitempty"` // offsets lost, [first, next)
	OffsetNext  *core.Offset     `json:"offset_next,omitempty"`
}

func (l *DamageLine) text() string {
	var b strings.Builder
	word := "DAMAGE"
	if l.Torn {
		word = "TORN TAIL"
	}
	fmt.Fprintf(&b, "%s %s", word, l.File)
	if l.End > 0 {
		fmt.Fprintf(&b, " positions [%d, %d)", l.Start, l.End)
	}
	fmt.Fprintf(&b, ": %s", l.What)
	if l.Partition != 0 {
		fmt.Fprintf(&b, "; partition id %d", l.Partition)
	}
	if l.IndexNext > l.IndexFirst {
		fmt.Fprintf(&b, "; indexes [%d, %d)", l.IndexFirst, l.IndexNext)
	}
	if l.OffsetNext != nil && *l.OffsetNext > *l.OffsetFirst {
		fmt.Fprintf(&b, "; offsets [%d, %d)", *l.OffsetFirst, *l.OffsetNext)
	}
	return b.String()
}

// holeLine makes the line of a hole in a segment.
func holeLine(file string, h Hole, partition core.PartitionID, torn bool) DamageLine {
	l := DamageLine{File: file, Start: h.Start, End: h.End, Torn: torn, What: h.Cause.Error(), Partition: partition}
	if h.IndexNext > h.IndexFirst {
		l.IndexFirst, l.IndexNext = h.IndexFirst, h.IndexNext
	}
	if h.OffsetNext > h.OffsetFirst {
		l.OffsetFirst, l.OffsetNext = &h.OffsetFirst, &h.OffsetNext
	}
	return l
}

// WarningLine is something odd that loses nothing.
type WarningLine struct {
	Line string `json:"line"` // "warning"
	File string `json:"file"`
	What string `json:"what"`
}

func (l *WarningLine) text() string { return fmt.Sprintf("WARNING %s: %s", l.File, l.What) }

func wallClock(nanos int64) string {
	if nanos == 0 {
		return ""
	}
	return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano)
}
