package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// VerifySummary counts what Verify looked at and found.
type VerifySummary struct {
	Line          string `json:"line"`                    // "summary"
	Partitions    int    `json:"partitions"`              // with a folder, or with frames in the journal
	Unwritten     int    `json:"journal_only_partitions"` // of them, those without a segment
	Segments      int    `json:"segments"`
	Indexes       int    `json:"indexes"`
	States        int    `json:"states"`
	JournalFiles  int    `json:"journal_files"`
	Groups        int64  `json:"groups"`
	JournalFrames int64  `json:"journal_frames"` // with records
	Frames        int64  `json:"frames"`         // in segments, marks not counted
	Batches       int64  `json:"batches"`
	Records       int64  `json:"records"`
	Bytes         int64  `json:"bytes"` // read
	Discarded     int64  `json:"discarded_frames"`
	Damages       int    `json:"damages"`
	Torn          int    `json:"torn"`
	Warnings      int    `json:"warnings"`
}

// Sound says that nothing that was durable is missing or changed.
func (s *VerifySummary) Sound() bool { return s.Damages == 0 }

func (s *VerifySummary) text() string {
	verdict := "sound"
	if !s.Sound() {
		verdict = fmt.Sprintf("DAMAGED in %d places", s.Damages)
	}
	return fmt.Sprintf("%s: %d partitions, %d of them in the journal only; segments: %d with %d frames, %d batches, %d records, %d indexes, %d states; "+
		"journal: %d files with %d groups, %d frames of records; %d bytes read, %d frames of void generations, %d torn tails, %d warnings",
		verdict, s.Partitions, s.Unwritten, s.Segments, s.Frames, s.Batches, s.Records, s.Indexes, s.States, s.JournalFiles, s.Groups, s.JournalFrames,
		s.Bytes, s.Discarded, s.Torn, s.Warnings)
}

// Verify reads a whole data folder and reports every damage: checksums of all
// frames, groups, batches, headers, indexes and states; offsets and indexes
// that do not follow; files that are missing, overlap or belong elsewhere; states
// and indexes that do not fit their segments. It changes nothing.
//
// It must not read while a broker writes: what is half written would look
// damaged. The caller holds the data folder's lock, or was told to go ahead, in
// which case only what is sealed can be judged. Bytes that no write, group or
// checkpoint calls durable and that are not whole are torn, not damaged: that is
// what a crash leaves and what recovery cuts. The last group of a journal that
// was damaged cannot be told from a torn one.
//
// The error is about reading the folder at all; damage is in the report and summary.
func Verify(files core.FS, r *Report) (VerifySummary, error) {
	v := &verifier{files: files, report: r, journal: map[core.PartitionID]*journaled{}, hurt: map[core.ShardID]bool{}, floors: map[core.ShardID]uint64{}}
	v.sum.Line = "summary"
	err := v.run()
	v.sum.Damages, v.sum.Torn, v.sum.Warnings = r.Damages, r.Torn, r.Warnings
	if err == nil {
		r.add(&v.sum)
	}
	if e := r.Flush(); err == nil {
		err = e
	}
	return v.sum, err
}

type verifier struct {
	files       core.FS
	report      *Report
	sum         VerifySummary
	incarnation [16]byte
	layoutOf    uint32 // of the journals
	known       bool   // the incarnation is
	journal     map[core.PartitionID]*journaled
	floors      map[core.ShardID]uint64 // groups below are not needed any more
	hurt        map[core.ShardID]bool   // groups that were synced are missing from the journal
	scanner     Scanner
	journals    JournalScanner
	index       Index
}

// journaled is what the journals say of one partition.
type journaled struct {
	durable  core.Index
	sealed   core.Index // up to here everything is synced in segments
	logStart core.Offset
	starts   map[core.Generation]core.Index
	runs     []frameRun
	shard    core.ShardID
	foldered bool // the partition has a folder, which is judged with it
}

func (v *verifier) of(id core.PartitionID) *journaled {
	j := v.journal[id]
	if j == nil {
		j = &journaled{starts: map[core.Generation]core.Index{}}
		v.journal[id] = j
	}
	return j
}

// begins takes note that a generation begins at an index, or before it.
func (j *journaled) begins(g core.Generation, at core.Index) {
	if was, ok := j.starts[g]; !ok || at < was {
		j.starts[g] = at
	}
}

func (v *verifier) run() error {
	if err := v.meta(); err != nil {
		return err
	}
	top, err := v.files.List(".")
	if err != nil {
		return err
	}
	for _, e := range top {
		if layout, ok := parseLayoutDir(e.Name); ok && e.IsDir {
			v.layoutOf = layout
			if err := v.layout(e.Name, layout); err != nil {
				return err
			}
		}
	}
	if err := v.held(); err != nil {
		return err
	}
	topics, err := v.files.List(TopicsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range topics {
		dir := path.Join(TopicsDir, e.Name)
		topic, err := core.ParseTopicID(e.Name)
		if err != nil || !e.IsDir {
			v.report.warn(dir, "is no topic's folder")
			continue
		}
		if err := v.topic(dir, topic); err != nil {
			return err
		}
	}
	v.unwritten()
	return nil
}

// held reads what was set aside of partitions that could not be opened, as if the
// journal had it.
func (v *verifier) held() error {
	entries, err := v.files.List(HeldDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		name := path.Join(HeldDir, e.Name)
		if IsUnfinished(name) {
			v.report.warn(name, "was never completed")
			continue
		}
		b, err := readFile(v.files, name, heldWholeBytesMax)
		if err != nil {
			v.report.damaged(name, "%v", err)
			continue
		}
		v.sum.Bytes += int64(len(b))
		frames, err := heldFrames(b)
		if err == nil {
			var h FileHeader
			if h, err = ParseFileHeader(b); err == nil {
				v.owned(name, &h)
				v.report.warn(name, "keeps what the journal held of partition id %d, which the last start could not open", h.Partition)
				shard := core.ShardID(0) // only the journal's own entries are told apart by it
				err = EachFrame(frames, func(_ int, h *FrameHeader, payload []byte, err error) error {
					v.journalFrame(shard, name, h, payload, err)
					return nil
				})
			}
		}
		if err != nil {
			v.report.damaged(name, "%v", err)
		}
	}
	return nil
}

// unwritten counts the partitions that only the journal holds, because nothing of
// them has been written to a segment yet, and judges their frames. The journal also
// keeps frames of deleted partitions for a while, so what is missing from them is
// damage only where the journal itself is damaged.
func (v *verifier) unwritten() {
	for _, id := range slices.Sorted(maps.Keys(v.journal)) {
		j := v.journal[id]
		if j.foldered || len(j.runs) == 0 {
			continue
		}
		v.sum.Partitions++
		v.sum.Unwritten++
		if v.hurt[j.shard] {
			p := &partitionVerifier{verifier: v, dir: ShardDir(v.layoutOf, j.shard), want: FileHeader{Partition: id}, journaled: j, durable: j.durable}
			p.judgeRuns()
		}
	}
}

// meta checks the files of meta/ and learns the folder's incarnation.
func (v *verifier) meta() error {
	entries, err := v.files.List(MetaDir)
	if err != nil {
		return fmt.Errorf("this is no data folder, or its %s/ is lost: %w", MetaDir, err)
	}
	for _, e := range entries {
		name := path.Join(MetaDir, e.Name)
		if IsUnfinished(name) {
			v.report.warn(name, "was never completed")
			continue
		}
		b, err := readFile(v.files, name, indexFileBytesMax)
		if err == nil {
			err = checkMetaFile(b)
		}
		if err != nil {
			v.report.damaged(name, "%v", err)
			continue
		}
		v.sum.Bytes += int64(len(b))
		h, _ := ParseFileHeader(b)
		v.owned(name, &h)
	}
	for _, name := range []string{identityPath, layoutPath} {
		if !slices.ContainsFunc(entries, func(e core.DirEntry) bool { return path.Join(MetaDir, e.Name) == name }) {
			v.report.damaged(name, "is missing")
		}
	}
	v.listed()
	if !v.known {
		v.report.damaged(MetaDir, "no file says which incarnation the folder is")
	}
	return nil
}

// listed looks for the journal files that must be there. A list that is damaged
// has been reported.
func (v *verifier) listed() {
	d := &Folder{fs: v.files}
	if d.loadIdentity() != nil || d.loadLayout() != nil {
		return
	}
	for shard, list := range d.journals {
		for _, l := range list {
			name := JournalPath(d.layout, core.ShardID(shard), l.number)
			if ok, err := d.exists(name); err == nil && !ok {
				v.report.damaged(name, "is missing, and %s lists it", layoutPath)
			}
		}
	}
}

// owned compares a file's incarnation with the folder's.
func (v *verifier) owned(name string, h *FileHeader) bool {
	if !v.known {
		v.incarnation, v.known = h.Incarnation, true
	}
	if h.Incarnation != v.incarnation {
		v.report.damaged(name, "foreign file: incarnation %x, the folder is %x", h.Incarnation, v.incarnation)
		return false
	}
	return true
}

func parseLayoutDir(name string) (uint32, bool) {
	var n uint32
	if _, err := fmt.Sscanf(name, "layout-%d", &n); err != nil || LayoutDir(n) != name {
		return 0, false
	}
	return n, true
}

// layout checks the journals of all shards of a layout.
func (v *verifier) layout(dir string, layout uint32) error {
	shards, err := v.files.List(dir)
	if err != nil {
		return err
	}
	for _, e := range shards {
		var n core.ShardID
		if _, err := fmt.Sscanf(e.Name, "shard-%d", &n); err != nil || path.Join(dir, e.Name) != ShardDir(layout, n) {
			v.report.warn(path.Join(dir, e.Name), "is no shard's folder")
			continue
		}
		if err := v.shard(layout, n); err != nil {
			return err
		}
	}
	return nil
}

// journalEnds is what joins one journal file to the next.
type journalEnds struct {
	name     string
	size     int64
	first    GroupHeader
	expected uint64
	torn     *DamageLine // said only when no later file turns it into damage
	headless *DamageLine // its header is bad: torn when the file was just recycled
	synced   uint64
}

func (v *verifier) shard(layout uint32, shard core.ShardID) error {
	dir := ShardDir(layout, shard)
	entries, err := v.files.List(dir)
	if err != nil {
		return err
	}
	var ends []journalEnds
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		var number uint32
		if _, err := fmt.Sscanf(e.Name, "journal-%d.jnl", &number); err != nil || JournalPath(layout, shard, number) != name {
			v.report.warn(name, "is no journal file")
			continue
		}
		v.sum.JournalFiles++
		if err := v.journalFile(name, FileHeader{Layout: layout, Shard: shard, FileNumber: number}, &ends); err != nil {
			return err
		}
	}
	// A file is recycled when nothing in it is needed any more, so what a cut during
	// the writing of its new header leaves is no loss.
	ends = slices.DeleteFunc(ends, func(e journalEnds) bool {
		freed := e.expected <= v.floors[shard]
		if e.headless != nil {
			e.headless.Torn = freed
			v.report.damage(*e.headless)
		}
		return freed
	})
	slices.SortFunc(ends, func(a, b journalEnds) int { return cmp.Compare(a.first.Sequence, b.first.Sequence) })
	for i := range ends {
		e := &ends[i]
		var later uint64
		for _, l := range ends[i+1:] {
			later = max(later, l.synced)
		}
		missing := false
		if i+1 < len(ends) {
			next := &ends[i+1].first
			restart := next.Flags&GroupRestart != 0 && next.Synced < e.expected
			missing = next.Sequence != e.expected && !restart
		}
		switch {
		case missing && later >= e.expected:
			v.hurt[shard] = true
			v.report.damage(DamageLine{File: e.name, What: fmt.Sprintf("groups of sequence [%d, %d) are missing, %s calls them synced",
				e.expected, ends[i+1].first.Sequence, ends[i+1].name)})
		case e.torn != nil:
			v.report.damage(*e.torn)
		}
	}
	return nil
}

func (v *verifier) journalFile(name string, want FileHeader, ends *[]journalEnds) error {
	f, err := v.files.OpenRead(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	v.sum.Bytes += size
	want.Incarnation = v.incarnation
	s := &v.journals
	end := journalEnds{name: name, size: size}
	if err := s.Open(f, size, &want); errors.Is(err, ErrFileHeader) {
		end.headless = &DamageLine{File: name, End: min(size, FileHeaderBytes), What: err.Error()}
		s.salvage(f, size, &want)
	} else if err != nil {
		v.report.damaged(name, "%v", err)
		return nil
	}
	for s.Next() {
		if end.first.Sequence == 0 {
			end.first = s.Group
		}
		v.sum.Groups++
		err := EachFrame(s.Body, func(_ int, h *FrameHeader, payload []byte, err error) error {
			v.journalFrame(want.Shard, name, h, payload, err)
			return nil
		})
		if err != nil {
			v.hurt[want.Shard] = true
			v.report.damage(DamageLine{File: name, Start: s.Position, End: s.End, What: err.Error()})
		}
	}
	for _, h := range s.Holes {
		v.hurt[want.Shard] = true
		v.report.damage(DamageLine{File: name, Start: h.Start, End: h.End, What: journalHoleText(h)})
	}
	if s.Err() != nil {
		v.report.damaged(name, "%v", s.Err())
	}
	end.expected, end.synced = s.Expected, s.SyncedMax
	if s.Torn {
		line := journalTail(name, size, s)
		if end.torn = &line; end.first.Sequence == 0 || !line.Torn {
			v.report.damage(line)
			end.torn = nil
		}
	}
	*ends = append(*ends, end)
	return nil
}

func (v *verifier) journalFrame(shard core.ShardID, name string, h *FrameHeader, payload []byte, err error) {
	switch {
	case err != nil:
		line := DamageLine{File: name, What: err.Error(), Partition: h.Partition, IndexFirst: h.Index, IndexNext: h.Index + 1}
		if base, next := h.BaseOffset, h.Next(); next > base {
			line.OffsetFirst, line.OffsetNext = &base, &next
		}
		v.report.damage(line)
	case h.Kind == FrameCheckpoint:
		if err := ParseCheckpoints(payload, func(c *Checkpoint) {
			if c.Partition == checkpointJournal {
				v.floors[shard] = max(v.floors[shard], uint64(c.Commit))
				return
			}
			j := v.of(c.Partition)
			j.durable = max(j.durable, c.Durable, c.Sealed.Index)
			j.sealed = max(j.sealed, c.Sealed.Index)
			j.logStart = max(j.logStart, c.LogStart)
			j.begins(c.Generation, c.GenerationStart)
		}); err != nil {
			v.report.damaged(name, "%v", err)
		}
	case h.Kind == FrameGeneration:
		v.of(h.Partition).begins(h.Generation, h.Index)
	case frameIndexed(h.Kind):
		j := v.of(h.Partition)
		j.shard = shard
		if h.Kind == FrameData {
			v.sum.JournalFrames++
		}
		j.runs = addToRuns(j.runs, h, h.Index, name)
		j.control(h, payload)
	}
}

// control follows the log start.
func (j *journaled) control(h *FrameHeader, payload []byte) {
	if h.Kind == FrameControl {
		if start, err := ParseLogStart(payload); err == nil {
			j.logStart = max(j.logStart, start)
		}
	}
}

// topic checks the partitions of a topic's folder.
func (v *verifier) topic(dir string, topic core.TopicID) error {
	entries, err := v.files.List(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var n core.PartitionNumber
		name := path.Join(dir, e.Name)
		if _, err := fmt.Sscanf(e.Name, "%d", &n); err != nil || PartitionDir(topic, n) != name || !e.IsDir {
			v.report.warn(name, "is no partition's folder")
			continue
		}
		p := &partitionVerifier{verifier: v, dir: name, want: FileHeader{Incarnation: v.incarnation, Topic: topic, Number: n}}
		if err := p.run(); err != nil {
			return err
		}
		if len(p.segments)+len(p.others) > 0 {
			v.sum.Partitions++
		}
	}
	return nil
}

// frameRun is a row of frames that follow each other in index and offset.
type frameRun struct {
	generation  core.Generation
	first, next core.Index  // [first, next)
	base, end   core.Offset // [base, end); end is not known, -1, when the run was cut
	file        string
}

// addToRuns adds a frame to the last run or begins one. The frame stands for the
// indexes from first on: its own alone, but in compacted segments also those of
// frames before it that were emptied.
func addToRuns(runs []frameRun, h *FrameHeader, first core.Index, file string) []frameRun {
	if n := len(runs); n > 0 {
		r := &runs[n-1]
		if r.generation == h.Generation && r.end == h.BaseOffset && r.file == file && first == r.next {
			r.next, r.end = h.Index+1, h.Next()
			return runs
		}
	}
	return append(runs, frameRun{h.Generation, first, h.Index + 1, h.BaseOffset, h.Next(), file})
}

// liveRuns takes away what later generations made void, and sorts what is left.
func liveRuns(runs []frameRun, starts map[core.Generation]core.Index) (live []frameRun, discarded int64) {
	for _, r := range runs {
		cut := r.next
		for g, at := range starts {
			if g > r.generation {
				cut = min(cut, max(at, r.first))
			}
		}
		discarded += int64(r.next - cut)
		if cut < r.next {
			r.next, r.end = cut, -1
		}
		if r.first < r.next {
			live = append(live, r)
		}
	}
	slices.SortStableFunc(live, func(a, b frameRun) int {
		if c := cmp.Compare(a.first, b.first); c != 0 {
			return c
		}
		return strings.Compare(a.file, b.file)
	})
	return live, discarded
}
