package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// What the journal holds of a known partition that a start cannot open is set aside in
// a file of held/, before recycling could drop it, and the next start that opens the
// partition takes it from there. The other partitions are served meanwhile.
//
//	held/partition-<id>-<number>.frames
//	    file header | generation records | checkpoint | frames, all as in the journal |
//	    bytes before this u64 | their crc u32
//
// A file appears under its name when it is whole and synced. Each later one of a
// partition holds what the earlier ones did that could be read, so that these may go.

// HeldDir keeps what belongs to partitions that could not be opened.
const HeldDir = "held"

// HeldPath is one file of a partition.
func HeldPath(id core.PartitionID, number uint64) string {
	return path.Join(HeldDir, fmt.Sprintf("partition-%d-%d%s", id, number, heldExtension))
}

const (
	heldExtension = ".frames"
	heldEndBytes  = 12
	// heldWriteBytes is how much is gathered for one write.
	heldWriteBytes = 1 << 20
)

// ErrHeld reports a file of held/ that is not what was written.
var ErrHeld = errors.New("held frames: damaged")

// parseHeldName reads what HeldPath made.
func parseHeldName(name string) (id core.PartitionID, number uint64, ok bool) {
	stem, found := strings.CutSuffix(name, heldExtension)
	stem, prefixed := strings.CutPrefix(stem, "partition-")
	first, second, both := strings.Cut(stem, "-")
	if !found || !prefixed || !both {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(first, 10, 64)
	number, e := strconv.ParseUint(second, 10, 64)
	return core.PartitionID(n), number, err == nil && e == nil && HeldPath(core.PartitionID(n), number) == path.Join(HeldDir, name)
}

// heldFile is a file of held/.
type heldFile struct {
	number uint64
	path   string
	read   bool // its content is among what was replayed
}

// listHeld finds what earlier starts have set aside of the shard's partitions. It is called once, before the first log
// is opened.
func (s *Store) listHeld() error {
	r, files := s.replay, s.ports.FS
	entries, err := files.List(HeldDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for what an earlier start has set aside: %w", err)
	}
	for _, e := range entries {
		id, number, ok := parseHeldName(strings.TrimSuffix(e.Name, newSuffix))
		if !ok || core.ShardOf(id, s.folder.shards) != s.shard {
			continue
		}
		name := path.Join(HeldDir, e.Name)
		if IsUnfinished(e.Name) {
			if err := files.Remove(name); err != nil {
				return err
			}
			continue
		}
		if r.held == nil {
			r.held = make(map[core.PartitionID][]*heldFile)
		}
		r.held[id] = append(r.held[id], &heldFile{number: number, path: name})
	}
	for _, list := range r.held {
		slices.SortFunc(list, func(a, b *heldFile) int { return int(int64(a.number) - int64(b.number)) })
	}
	return nil
}

// takeHeld adds what earlier starts have set aside of a partition to what the journal
// says of it, as if it stood before. It may be called again after a failure.
func (s *Store) takeHeld(identity *LogIdentity, p *replayed) error {
	for _, f := range slices.Backward(s.replay.held[identity.Partition]) { // each goes before what is there
		if f.read {
			continue
		}
		before := &replayed{}
		if err := s.readHeld(identity, f, before); err != nil {
			return err
		}
		f.read = true
		if p.checked {
			before.merge(&p.checkpoint)
		}
		before.frames = append(before.frames, p.frames...)
		before.generations = append(before.generations, p.generations...)
		p.frames, p.generations, p.checkpoint, p.checked = before.frames, before.generations, before.checkpoint, before.checked
		if p.unknown == nil {
			p.unknown = before.unknown
		}
	}
	return nil
}

// readHeld reads one file. Nothing of it counts unless all of it is what was written.
func (s *Store) readHeld(identity *LogIdentity, f *heldFile, into *replayed) error {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("%s holds records of this partition that an earlier start has set aside, and %w: %s; restore the file from a copy, or move it away to do without them",
			f.path, ErrHeld, fmt.Sprintf(format, args...))
	}
	file, err := s.ports.FS.OpenRead(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	var w scanWindow
	w.reset(file, size)
	end := size - heldEndBytes
	sum := uint32(0)
	for at := int64(0); at < end; at += heldWriteBytes {
		sum = crc32.Update(sum, castagnoli, w.view(at, int(min(heldWriteBytes, end-at))))
	}
	if w.unreadable > 0 {
		return fmt.Errorf("%s: %w: %w", f.path, ErrUnreadable, w.err)
	}
	if end < FileHeaderBytes {
		return damaged("it has %d bytes", size)
	}
	if b := w.view(end, heldEndBytes); binary.BigEndian.Uint64(b) != uint64(end) || binary.BigEndian.Uint32(b[8:]) != sum {
		return damaged("its checksum does not match")
	}
	h, err := ParseFileHeader(w.view(0, FileHeaderBytes))
	if err != nil {
		return damaged("%v", err)
	}
	if want := s.heldHeader(identity); h != want {
		return fmt.Errorf("%w: %s belongs to partition %d of topic %s, number %d, of incarnation %x", ErrFileForeign, f.path, h.Partition, h.Topic, h.Number, h.Incarnation)
	}
	for at := int64(FileHeaderBytes); at < end; {
		h, err := ParseFrameHeader(w.view(at, FrameHeaderBytes))
		if err != nil && !errors.Is(err, ErrFrameUnknown) {
			return damaged("at %d: %v", at, err)
		}
		n := FrameHeaderBytes + int64(h.Bytes)
		_, payload, err := ParseFrame(w.view(at, int(min(n, end-at))))
		switch {
		case h.Kind == FrameCheckpoint && err == nil:
			if err := ParseCheckpoints(payload, into.merge); err != nil {
				return damaged("at %d: %v", at, err)
			}
		case h.Kind == FrameGeneration && err == nil:
			into.generations = append(into.generations, generationStart{h.Generation, h.Index, h.Term})
		default:
			if errors.Is(err, ErrFrameUnknown) {
				into.unknown = fmt.Errorf("%s at %d: %w: version or kind %d, flags %#x, index %d", f.path, at, ErrFrameUnknown, h.Kind, h.Flags, h.Index)
			}
			into.frames = append(into.frames, replayFrame{
				index: h.Index, generation: h.Generation, term: h.Term, base: h.BaseOffset, span: h.Span, bytes: h.Bytes,
				kind: h.Kind, bad: err != nil, held: f.path, position: at,
			})
		}
		at += n
	}
	if w.unreadable > 0 {
		return fmt.Errorf("%s: %w: %w", f.path, ErrUnreadable, w.err)
	}
	return nil
}

// heldWholeBytesMax is the largest file that the offline tools look at: they read it as a whole.
const heldWholeBytesMax = 1 << 30

// heldFrames checks a whole file and gives its frames.
func heldFrames(b []byte) ([]byte, error) {
	end := len(b) - heldEndBytes
	if end < FileHeaderBytes || binary.BigEndian.Uint64(b[end:]) != uint64(end) || binary.BigEndian.Uint32(b[end+8:]) != crcOf(b[:end]) {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrHeld)
	}
	return b[FileHeaderBytes:end], nil
}

func (s *Store) heldHeader(id *LogIdentity) FileHeader {
	return FileHeader{Kind: FileHeld, Incarnation: s.folder.Incarnation, Topic: id.Topic, Partition: id.Partition, Number: id.Number}
}

// Hold sets aside what the journal says of the partitions that could not be opened, and
// removes what was set aside of deleted ones. It blocks and is called after the last
// OpenLog. When it fails, the store must not start: its journal would recycle what was
// not set aside.
func (s *Store) Hold(known func(core.PartitionID) bool) error {
	core.Assert(!s.started, "frames are set aside before the start")
	for _, id := range s.refused {
		if err := s.hold(id); err != nil {
			return fmt.Errorf("set aside what the journal holds of %s, which cannot be opened: %w", id, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.replay.held)) {
		if p := s.replay.partitions[id]; known(id) && (p == nil || !p.opened && !p.refused) {
			for _, f := range s.replay.held[id] {
				f.read = true
			}
			if err := s.releaseHeld(id); err != nil {
				return fmt.Errorf("remove what was set aside of a deleted partition: %w", err)
			}
		}
	}
	return nil
}

// hold writes one partition's file.
func (s *Store) hold(id *LogIdentity) error {
	p := s.replay.partitions[id.Partition]
	list := s.replay.held[id.Partition]
	if len(p.frames)+len(p.generations) == 0 && !p.checked || len(list) > 0 && !p.journaled {
		return nil // the journal has nothing of it, or nothing that is not in a file already
	}
	number := uint64(1)
	for _, f := range list {
		number = max(number, f.number+1)
	}
	name := HeldPath(id.Partition, number)
	if err := s.writeHeld(id, p, name); err != nil {
		return err
	}
	s.log.Error("what the journal holds of a partition that cannot be opened was set aside; the next start that can open it takes it back", "partition", id.String(), "file", name, "frames", len(p.frames))
	return s.releaseHeld(id.Partition)
}

// writeHeld writes a file under another name and syncs it, before it gets its own.
func (s *Store) writeHeld(id *LogIdentity, p *replayed, name string) error {
	files := s.ports.FS
	if err := files.MakeDir(HeldDir); err != nil {
		return err
	}
	if err := files.SyncDir("."); err != nil {
		return err
	}
	fresh := name + newSuffix
	if err := removeIfThere(files, fresh); err != nil {
		return err
	}
	f, err := files.Create(fresh)
	if err != nil {
		return err
	}
	w := heldWriter{file: f}
	if err := errors.Join(s.fillHeld(&w, id, p), f.Close()); err != nil {
		return errors.Join(err, removeIfThere(files, fresh))
	}
	if err := files.Rename(fresh, name); err != nil {
		return err
	}
	return files.SyncDir(HeldDir)
}

// fillHeld writes the content of a file. The frames are taken from the journal and from
// the files that this one replaces.
func (s *Store) fillHeld(w *heldWriter, id *LogIdentity, p *replayed) error {
	header := s.heldHeader(id)
	b := make([]byte, FileHeaderBytes)
	header.Put(b)
	w.add(b)
	for _, g := range p.generations {
		h := FrameHeader{Kind: FrameGeneration, Partition: id.Partition, Index: g.start, Term: g.term, Generation: g.generation, PayloadCRC: crcOf(nil)}
		b := make([]byte, FrameHeaderBytes)
		h.Put(b)
		w.add(b)
	}
	if s.replay.damages > 0 {
		p.keepSynced(id.Partition)
	}
	if p.checked {
		payload := AppendCheckpoint(nil, &p.checkpoint)
		h := FrameHeader{Kind: FrameCheckpoint, Bytes: uint32(len(payload)), PayloadCRC: crcOf(payload)}
		b := make([]byte, FrameHeaderBytes, FrameHeaderBytes+len(payload))
		h.Put(b)
		w.add(append(b, payload...))
	}
	var source frameSource
	source.init(s)
	defer source.close()
	for i := range p.frames {
		f := located{replayFrame: p.frames[i]}
		_, raw, err := source.frame(&f)
		if err == nil {
			w.add(raw)
			continue
		}
		if !f.bad {
			return err
		}
		if source.window == nil {
			return err // the file itself could not be opened
		}
		if source.window.unreadable > 0 {
			return fmt.Errorf("%w: %w", ErrUnreadable, source.window.err)
		}
		w.add(source.window.view(f.position, FrameHeaderBytes+int(f.bytes)))
	}
	return w.end()
}

// placeHeld brings what was set aside of the log to its segment: no journal protects it.
// On a full disk the files stay, and the next start reads them again.
func (r *recovery) placeHeld() error {
	if len(r.store.replay.held[r.log.id.Partition]) == 0 {
		return nil
	}
	if err := r.store.flushNow(r.log); err != nil && !errors.Is(err, core.ErrDiskFull) {
		return err
	}
	return nil
}

// settleHeld removes the files of a log that is open, when its segment has everything.
func (s *Store) settleHeld(l *Log) {
	list := s.replay.held[l.id.Partition]
	if len(list) == 0 {
		return
	}
	if l.chunks.len() > 0 {
		s.log.Warn("what an earlier start has set aside of a log cannot be brought to its segment yet; the next start tries again", "log", l.id.String())
		return
	}
	s.log.Info("what an earlier start has set aside of a log is back in it", "log", l.id.String(), "files", len(list))
	if err := s.releaseHeld(l.id.Partition); err != nil {
		// They would be read once more by the next start, as copies of what the log has.
		s.log.Warn("files that are not needed any more could not be removed from "+HeldDir, "log", l.id.String(), "error", err)
	}
}

// releaseHeld removes the files whose content is elsewhere now.
func (s *Store) releaseHeld(id core.PartitionID) error {
	list := s.replay.held[id]
	removed := false
	for _, f := range list {
		if f.read {
			if err := removeIfThere(s.ports.FS, f.path); err != nil {
				return err
			}
			removed = true
		}
	}
	if !removed {
		return nil
	}
	s.replay.held[id] = slices.DeleteFunc(list, func(f *heldFile) bool { return f.read })
	return s.ports.FS.SyncDir(HeldDir)
}

// heldWriter gathers the content of a file.
type heldWriter struct {
	file core.File
	b    []byte
	at   int64
	sum  uint32
	err  error
}

func (w *heldWriter) add(b []byte) {
	w.b = append(w.b, b...)
	w.sum = crc32.Update(w.sum, castagnoli, b)
	if len(w.b) >= heldWriteBytes {
		w.write()
	}
}

func (w *heldWriter) write() {
	if w.err == nil {
		_, w.err = w.file.WriteAt(w.b, w.at)
	}
	w.at += int64(len(w.b))
	w.b = w.b[:0]
}

// end writes what is left and how much there was, and syncs.
func (w *heldWriter) end() error {
	sum := w.sum
	var b [heldEndBytes]byte
	binary.BigEndian.PutUint64(b[:], uint64(w.at)+uint64(len(w.b)))
	binary.BigEndian.PutUint32(b[8:], sum)
	w.add(b[:])
	w.write()
	if w.err != nil {
		return w.err
	}
	return w.file.Sync()
}
