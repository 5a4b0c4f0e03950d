package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math"
	"slices"
	"sort"

	"github.com/pulsemq/pulsemq/core"
)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// replayFrame is a frame of a partition found in the journal.
type replayFrame struct {
	index      core.Index
	generation core.Generation
	term       core.Term
	base       core.Offset
	span       uint32
	bytes      uint32
	kind       FrameKind
	bad        bool // the header is good, the payload is not
	synced     bool // the group that held it is known to have been synced
	mended     bool // its header may be hurt where it stands
	file       uint32
	position   int64  // of the frame in the file
	held       string // the file of held/ that it stands in; "": in the journal, or a segment
	raw        []byte // all of the frame, if the replay of the journal kept it
}

func (f *replayFrame) next() core.Offset { return f.base + core.Offset(f.span) }

// generationStart is the record that a generation begins at an index.
type generationStart struct {
	generation core.Generation
	start      core.Index
	term       core.Term
}

// replayed is what a shard's journal says of one partition.
type replayed struct {
	frames      []replayFrame // in the order of the journal
	generations []generationStart
	checkpoint  Checkpoint // the newest values over all entries
	checked     bool       // there was one
	records     []uint32   // files that hold records or checkpoint entries of it
	unknown     error      // a frame of a kind that this build does not know
	journaled   bool       // the journal itself says something of it
	opened      bool
	refused     bool // it could not be opened
}

// journalReplay is the outcome of reading a shard's journal.
type journalReplay struct {
	partitions map[core.PartitionID]*replayed
	held       map[core.PartitionID][]*heldFile // what earlier starts have set aside, oldest first
	files      []*replayFile                    // as listed
	floor      uint64                           // groups below are not needed
	last       uint64                           // the last group accepted
	synced     uint64                           // the highest group that anything calls synced
	sequence   uint64                           // the highest sequence seen, valid or not
	clean      bool
	head       *replayFile // where writing goes on; nil: in a free file
	headEnd    int64
	damages    int
	mended     int // groups with a hurt header that could be restored
	tornGroups int

	keepBytes int64       // how much of the newest groups is kept in memory for the logs
	source    frameSource // of the logs' frames
	excerpt   []byte      // of one of them, for its owner
	scanners  scannerPool // of those that are opened together
}

// replayFile is a journal file as found.
type replayFile struct {
	listed journalListed
	path   string
	header FileHeader
	bad    error // of the header
	size   int64
	first  uint64 // of its accepted groups; 0: it holds nothing needed
	groups []replayGroup
	zeros  bool // nothing was ever written behind the header
	maxGen uint32
	// unreadable is why the device did not give all of it; nil when it did.
	unreadable error
}

// replayGroup is a group found in a file, whole or only by its header.
type replayGroup struct {
	GroupHeader
	file     *replayFile
	position int64
	whole    bool
	mended   bool // a header of it was hurt and could be restored
	void     bool // a later restart does not know it

	floor    uint64 // groups below are not needed, says a checkpoint in it; 0: none says so
	floorErr error  // why a checkpoint in it says nothing
}

func (g *replayGroup) end() int64 { return alignUp(g.position + GroupHeaderBytes + int64(g.Bytes)) }

// replayJournal reads all journal files of a shard: first the groups of each,
// then, in order of their sequence, the frames of those that count. The newest keepBytes
// of them stay in memory: the frames of thousands of partitions lie between each other,
// and each would be a read of its own.
func replayJournal(d *Folder, shard core.ShardID, keepBytes int64, log *slog.Logger) (*journalReplay, error) {
	r := &journalReplay{partitions: make(map[core.PartitionID]*replayed), floor: 1, keepBytes: keepBytes}
	var all []replayGroup
	for _, listed := range d.journals[shard] {
		f, err := scanJournalFile(d, shard, listed)
		if err != nil {
			return nil, err
		}
		r.files = append(r.files, f)
		all = append(all, f.groups...)
	}
	sort.SliceStable(all, func(i, j int) bool {
		if all[i].Sequence != all[j].Sequence {
			return all[i].Sequence < all[j].Sequence
		}
		return all[i].whole && !all[j].whole
	})
	voidGroups(all)
	if err := r.findFloor(all); err != nil {
		return nil, err
	}
	if err := r.readable(); err != nil {
		return nil, err
	}
	for i := range all {
		g := &all[i]
		r.sequence = max(r.sequence, g.Sequence)
		if g.whole {
			r.synced = max(r.synced, g.Synced)
		}
	}
	if err := r.walk(d, all, log); err != nil {
		return nil, err
	}
	return r, nil
}

// scanJournalFile finds the groups of one file. A missing file is loss.
func scanJournalFile(d *Folder, shard core.ShardID, listed journalListed) (*replayFile, error) {
	name := JournalPath(d.layout, shard, listed.number)
	file, err := d.fs.OpenRead(name)
	if err != nil {
		return nil, fmt.Errorf("journal of shard %d: a file that %s lists cannot be opened; votes and acknowledged records may be lost, so this is no fresh start: %w", shard, layoutPath, err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	f := &replayFile{listed: listed, path: name, size: size, zeros: true}
	var w scanWindow
	w.reset(file, size)
	f.header, f.bad = ParseFileHeader(w.view(0, FileHeaderBytes))
	if f.bad == nil {
		switch h := &f.header; {
		case h.Kind != FileJournal:
			return nil, fmt.Errorf("%w: %s is of kind %d", ErrFileForeign, name, h.Kind)
		case h.Incarnation != d.Incarnation || h.Layout != d.layout || h.Shard != shard || h.FileNumber != listed.number:
			return nil, fmt.Errorf("%w: %s says incarnation %x, layout %d, shard %d, file %d", ErrFileForeign, name, h.Incarnation, h.Layout, h.Shard, h.FileNumber)
		}
	}
	salted := f.bad == nil
	if !salted {
		// The header is hurt: the newest group says which ones belong together.
		f.header.Salt, f.header.FileGeneration, salted = newestGroup(&w, d.layout, shard)
	}
	tries := mendTriesMax
	for at := int64(FileHeaderBytes); at < size; {
		b := w.view(at, core.DiskAlignment)
		if allZero(b) {
			at += core.DiskAlignment
			continue
		}
		f.zeros = false
		h, err := ParseGroupHeader(b)
		if errors.Is(err, ErrGroupUnknown) && salted && h.Salt == f.header.Salt {
			return nil, fmt.Errorf("%s at %d: %w", name, at, err)
		}
		if err == nil {
			f.maxGen = max(f.maxGen, h.FileGeneration)
		}
		mended := false
		if err != nil && salted && tries > 0 && mendable(b, &f.header) {
			tries--
			if h, mended = mendGroup(&w, at, &f.header); mended {
				err = nil
			}
		}
		if err != nil || h.Layout != d.layout || h.Shard != shard || h.Salt != f.header.Salt || h.FileGeneration != f.header.FileGeneration || h.Bytes > core.JournalGroupBytesMax {
			at += core.DiskAlignment
			continue
		}
		g := replayGroup{GroupHeader: h, file: f, position: at, whole: mended, mended: mended}
		if !mended {
			_, _, err = ParseGroup(w.view(at, GroupHeaderBytes+int(h.Bytes)))
			g.whole = err == nil
		}
		body := w.view(at+GroupHeaderBytes, int(h.Bytes))
		if !g.whole && len(body) == int(h.Bytes) && tries > 0 {
			tries--
			body = slices.Clone(body)
			g.mended = mendBody(body, h.BodyCRC)
			g.whole = g.mended
		}
		if g.whole {
			g.floor, g.floorErr = floorOf(body)
		}
		f.groups = append(f.groups, g)
		if g.whole {
			at = g.end()
		} else {
			at += core.DiskAlignment
		}
	}
	if w.unreadable > scanUnreadableMax {
		return nil, fmt.Errorf("%s: %w", name, w.err)
	}
	if w.unreadable > 0 {
		f.unreadable = fmt.Errorf("%s: %w: %w", name, ErrUnreadable, w.err)
	}
	return f, nil
}

// newestGroup is the salt and file generation of the group with the highest
// sequence in a file. Groups of the file's earlier lives have lower ones.
func newestGroup(w *scanWindow, layout uint32, shard core.ShardID) (salt uint64, generation uint32, found bool) {
	var sequence uint64
	for at := int64(FileHeaderBytes); at < w.size; at += core.DiskAlignment {
		h, err := ParseGroupHeader(w.view(at, GroupHeaderBytes))
		if err == nil && h.Layout == layout && h.Shard == shard && h.Sequence > sequence {
			salt, generation, sequence = h.Salt, h.FileGeneration, h.Sequence
		}
	}
	return salt, generation, sequence > 0
}

// readable refuses a journal of which the device did not give all. A group that was not
// given looks like one that was torn, so an acknowledged one would be cut and its place
// written over; the next start may well be given it. Files that recycling has freed
// hold nothing that is needed.
func (r *journalReplay) readable() error {
	for _, f := range r.files {
		if f.unreadable == nil {
			continue
		}
		newest := uint64(0)
		for i := range f.groups {
			newest = max(newest, f.groups[i].Sequence)
		}
		if newest == 0 || newest >= r.floor {
			return fmt.Errorf("the journal holds acknowledged records and cannot be read; start again, and if that does not help, copy the data folder to a disk that can be read: %w", f.unreadable)
		}
	}
	return nil
}

// findFloor finds the newest record of which groups recycling has freed.
func (r *journalReplay) findFloor(all []replayGroup) error {
	for i := range all {
		g := &all[i]
		if !g.whole || g.void {
			continue
		}
		if g.floorErr != nil {
			return g.floorErr
		}
		r.floor = max(r.floor, g.floor)
	}
	return nil
}

// floorOf is the newest such record in a group.
func floorOf(body []byte) (floor uint64, err error) {
	err = EachFrame(body, func(_ int, h *FrameHeader, payload []byte, err error) error {
		if err != nil || h.Kind != FrameCheckpoint {
			return nil
		}
		return ParseCheckpoints(payload, func(c *Checkpoint) {
			if c.Partition == checkpointJournal {
				floor = max(floor, uint64(c.Commit))
			}
		})
	})
	return floor, err
}

// eachGroup reads the bodies of groups, file by file as they come.
func (r *journalReplay) eachGroup(d *Folder, groups []replayGroup, each func(g *replayGroup, body []byte) error) error {
	var w scanWindow
	var open *replayFile
	var file core.File
	defer func() {
		if file != nil {
			file.Close()
		}
	}()
	for i := range groups {
		g := &groups[i]
		if g.file != open {
			if file != nil {
				file.Close()
			}
			var err error
			if file, err = d.fs.OpenRead(g.file.path); err != nil {
				return err
			}
			w.reset(file, g.file.size)
			open = g.file
		}
		body := w.view(g.position+GroupHeaderBytes, int(g.Bytes))
		if g.mended {
			mendBody(body, g.BodyCRC)
		}
		if g.whole && w.unreadable > 0 && crcOf(body) != g.BodyCRC {
			// It was given a moment before. Without its frames the partitions would seem to end
			// or to be damaged here, and what is not replayed is recycled.
			return fmt.Errorf("%s: %w: %w", g.file.path, ErrUnreadable, w.err)
		}
		if err := each(g, body); err != nil {
			return err
		}
	}
	return nil
}

// voidGroups marks the groups between a restart and the last one that its recovery
// accepted: those behind a torn one may still lie in the file, whole. A restart
// that a later one does not know is void itself.
func voidGroups(all []replayGroup) {
	known := uint64(math.MaxUint64)
	for i := len(all) - 1; i >= 0; i-- {
		g := &all[i]
		switch {
		case g.Sequence > known:
			g.void = true
		case g.whole && g.Flags&GroupRestart != 0:
			known = g.Synced
		}
	}
}

// walk decides which groups count. A group counts when it follows the last one,
// or opens a restart that names the last one. A missing or bad group is damage
// when anything calls it synced; else it is where the journal ends.
func (r *journalReplay) walk(d *Folder, all []replayGroup, log *slog.Logger) error {
	r.last = r.floor - 1
	var accepted []replayGroup
	torn := false
	for i := range all {
		g := &all[i]
		if g.Sequence <= r.last || g.void {
			continue
		}
		follows := g.Sequence == r.last+1 || g.Flags&GroupRestart != 0 && g.Synced <= r.last && g.whole
		if !follows && r.synced > r.last && !torn {
			// What is missing in between was durable, at least its beginning.
			missing := min(r.synced, g.Sequence-1)
			r.damages++
			log.Error("the journal is damaged: groups that were synced are missing", "first", r.last+1, "last", missing, "before", g.file.path, "position", g.position)
			accepted = append(accepted, replayGroup{GroupHeader: GroupHeader{Sequence: r.last + 1}})
			r.last = missing
			follows = g.Sequence == r.last+1 || g.Flags&GroupRestart != 0 && g.Synced <= r.last && g.whole
		}
		if !follows {
			torn = true
			r.tornGroups++
			continue
		}
		if !g.whole {
			if r.synced < g.Sequence {
				torn = true
				r.tornGroups++
				continue
			}
			r.damages++
			log.Error("the journal is damaged: a group that was synced is bad", "sequence", g.Sequence, "file", g.file.path, "position", g.position)
		}
		if g.mended {
			r.mended++
			log.Error("the journal is damaged: a group had a hurt header, which its checksum restored; nothing is lost", "sequence", g.Sequence, "file", g.file.path, "position", g.position)
		}
		torn = false
		accepted = append(accepted, *g)
		r.last = g.Sequence
		r.clean = g.Flags&GroupClean != 0
		r.head, r.headEnd = g.file, g.end()
		if g.file.first == 0 {
			g.file.first = g.Sequence
		}
	}
	if r.damages > 0 {
		// Which frames the lost groups held nobody knows: offsets that may be used again
		// carry a higher term.
		r.clean = false
	}
	if r.tornGroups > 0 {
		r.clean = false
		log.Info("the journal's torn end was cut", "groups", r.tornGroups, "last", r.last)
	}
	return r.collect(d, accepted)
}

// collect takes the frames of the groups that count. Of damaged ones the frames
// that are still whole.
func (r *journalReplay) collect(d *Folder, accepted []replayGroup) error {
	known := accepted[:0:0]
	for _, g := range accepted {
		if g.file != nil {
			known = append(known, g)
		}
	}
	keptFrom := uint64(math.MaxUint64)
	for i, room := len(known)-1, r.keepBytes; i >= 0; i-- {
		if room -= int64(known[i].Bytes); room < 0 {
			break
		}
		keptFrom = known[i].Sequence
	}
	return r.eachGroup(d, known, func(g *replayGroup, body []byte) error {
		kept := g.Sequence >= keptFrom
		if kept {
			body = slices.Clone(body)
		}
		synced := g.Sequence <= r.synced || g.Flags&GroupClean != 0
		at := g.position + GroupHeaderBytes
		for position := 0; position+FrameHeaderBytes <= len(body); {
			h, payload, err := ParseFrame(body[position:])
			if err != nil && !errors.Is(err, ErrFrameUnknown) && !errors.Is(err, ErrFramePayload) {
				break // without the header nothing says where the next one begins
			}
			r.frame(g, &h, payload, at+int64(position), synced, err)
			next := position + FrameHeaderBytes + int(h.Bytes)
			if kept && err == nil && frameIndexed(h.Kind) {
				frames := r.partition(h.Partition).frames
				frames[len(frames)-1].raw = body[position:next:next]
			}
			position = next
		}
		return nil
	})
}

func (r *journalReplay) partition(id core.PartitionID) *replayed {
	p := r.partitions[id]
	if p == nil {
		p = &replayed{journaled: true}
		r.partitions[id] = p
	}
	return p
}

func (r *journalReplay) frame(g *replayGroup, h *FrameHeader, payload []byte, at int64, synced bool, err error) {
	if h.Kind == FrameCheckpoint && err == nil {
		_ = ParseCheckpoints(payload, func(c *Checkpoint) {
			if c.Partition != checkpointJournal {
				p := r.partition(c.Partition)
				p.merge(c)
				p.note(g.file.listed.number)
			}
		})
		return
	}
	p := r.partition(h.Partition)
	switch {
	case errors.Is(err, ErrFrameUnknown):
		p.unknown = fmt.Errorf("%s at %d: %w: version or kind %d, flags %#x, index %d", g.file.path, at, ErrFrameUnknown, h.Kind, h.Flags, h.Index)
		// It stops the partition, and is set aside with the rest for a build that knows it.
		p.frames = append(p.frames, replayFrame{index: h.Index, bytes: h.Bytes, kind: h.Kind, bad: true, file: g.file.listed.number, position: at})
	case h.Kind == FrameGeneration:
		if err == nil {
			p.generations = append(p.generations, generationStart{h.Generation, h.Index, h.Term})
			p.note(g.file.listed.number)
		}
	case frameIndexed(h.Kind):
		p.frames = append(p.frames, replayFrame{
			index: h.Index, generation: h.Generation, term: h.Term, base: h.BaseOffset, span: h.Span, bytes: h.Bytes,
			kind: h.Kind, bad: err != nil, synced: synced, mended: g.mended, file: g.file.listed.number, position: at,
		})
	}
}

// dead says whether a frame was discarded by a later generation.
func (p *replayed) dead(index core.Index, generation core.Generation) bool {
	for _, g := range p.generations {
		if g.generation > generation && index >= g.start {
			return true
		}
	}
	return false
}

// note remembers that a file holds a record of the partition.
func (p *replayed) note(file uint32) {
	if n := len(p.records); n == 0 || p.records[n-1] != file {
		p.records = append(p.records, file)
	}
}

// merge takes the newest of each value. Entries come in the journal's order, and
// each stands for itself.
func (p *replayed) merge(c *Checkpoint) {
	p.checked = true
	old := p.checkpoint
	p.checkpoint = *c
	p.checkpoint.LogStart = max(old.LogStart, c.LogStart)
	p.checkpoint.Term = max(old.Term, c.Term)
	if old.Sealed.Index > c.Sealed.Index {
		p.checkpoint.Sealed = old.Sealed
	}
	p.checkpoint.Durable = max(old.Durable, c.Durable)
	p.generations = append(p.generations, generationStart{c.Generation, c.GenerationStart, c.Term})
}
