package segment

import (
	"fmt"
	"slices"

	"github.com/pulsemq/pulsemq/core"
)

// changeShards moves the journals to a layout with another number of shards.
// Everything that the old journals hold is copied, group by group, to the new
// journals of the partitions' new shards: frames keep their generation, so the
// copies are the same frames. The new layout is complete and synced before the
// layout file is replaced; then the old one is removed. A crash at any point
// leaves either layout whole, and the rest is repeated.
//
// Frames are not sorted into segments here: they name partitions, not topics, and
// which topic a partition belongs to is in the metadata log, which lies in one of
// these journals.
func (d *Folder) changeShards(o *FolderOptions) error {
	var sources []*journalReplay
	needed := make([]int64, o.Shards)
	clean := true
	for shard := range d.shards {
		r, err := replayJournal(d, core.ShardID(shard), 0, d.log)
		if err != nil {
			return err
		}
		for _, f := range r.files {
			if f.unreadable != nil {
				// What cannot be read now may be readable later. The old journals go once they are
				// copied, and what was not copied with them.
				return fmt.Errorf("a journal can only be moved when all of it can be read; start with %d shards as before: %w", d.shards, f.unreadable)
			}
		}
		clean = clean && r.clean
		sources = append(sources, r)
		for id, p := range r.partitions {
			to := core.ShardOf(id, o.Shards)
			for i := range p.frames {
				needed[to] += int64(p.frames[i].bytes) + FrameHeaderBytes
			}
			needed[to] += checkpointEntryBytes + int64(len(p.generations))*FrameHeaderBytes
		}
	}
	layout := d.layout + 1
	journals := make([][]journalListed, o.Shards)
	for shard := range journals {
		files := o.JournalBytes / o.JournalFileBytes
		// A group's padding and the room that its last frame did not fit cost up to half.
		for files < 2*needed[shard]/o.JournalFileBytes+journalFilesMin {
			files++
		}
		for n := range files {
			journals[shard] = append(journals[shard], journalListed{uint32(n + 1), o.JournalFileBytes})
		}
	}
	next := &Folder{fs: d.fs, log: d.log, rand: d.rand, Incarnation: d.Incarnation, ClusterID: d.ClusterID, layout: layout, shards: o.Shards, journals: journals, journalFiles: d.journalFiles}
	if err := next.createJournals(layout, journals); err != nil {
		return err
	}
	if err := next.fillJournals(d, sources, clean); err != nil {
		return err
	}
	if err := next.saveLayout(); err != nil { // the switch
		return err
	}
	d.log.Info("the number of shards changed", "from", d.shards, "to", o.Shards, "layout", layout)
	d.layout, d.shards, d.journals = layout, o.Shards, journals
	return d.removeOtherLayouts()
}

// journalCopy writes one shard's journal of a new layout with blocking calls.
type journalCopy struct {
	folder   *Folder
	shard    core.ShardID
	at       int // file in the list
	file     core.File
	header   FileHeader
	position int64
	sequence uint64
	body     []byte
	clean    bool
}

func (d *Folder) fillJournals(old *Folder, sources []*journalReplay, clean bool) error {
	copies := make([]*journalCopy, d.shards)
	for shard := range copies {
		copies[shard] = &journalCopy{folder: d, shard: core.ShardID(shard), at: -1, clean: clean}
	}
	for shard, r := range sources {
		if err := copyJournal(old, core.ShardID(shard), r, copies); err != nil {
			return err
		}
	}
	for _, c := range copies {
		if err := c.finish(); err != nil {
			return err
		}
	}
	return nil
}

// copyJournal hands what one old journal says to the new ones: each partition's
// generations, values and frames, in the order in which they stood.
func copyJournal(old *Folder, shard core.ShardID, r *journalReplay, copies []*journalCopy) error {
	ids := make([]core.PartitionID, 0, len(r.partitions))
	for id := range r.partitions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	source := frameSource{store: &Store{folder: old, shard: shard, ports: Ports{FS: old.fs}}}
	defer source.close()
	for _, id := range ids {
		p := r.partitions[id]
		to := copies[core.ShardOf(id, len(copies))]
		if p.unknown != nil {
			return p.unknown
		}
		for _, g := range p.generations {
			h := FrameHeader{Kind: FrameGeneration, Partition: id, Index: g.start, Term: g.term, Generation: g.generation, PayloadCRC: crcOf(nil)}
			b := make([]byte, FrameHeaderBytes)
			h.Put(b)
			if err := to.add(b); err != nil {
				return err
			}
		}
		if r.damages > 0 {
			p.keepSynced(id)
		}
		if p.checked {
			payload := AppendCheckpoint(nil, &p.checkpoint)
			h := FrameHeader{Kind: FrameCheckpoint, Bytes: uint32(len(payload)), PayloadCRC: crcOf(payload)}
			b := make([]byte, FrameHeaderBytes, FrameHeaderBytes+len(payload))
			h.Put(b)
			if err := to.add(append(b, payload...)); err != nil {
				return err
			}
		}
		for i := range p.frames {
			f := located{replayFrame: p.frames[i]}
			if !f.bad {
				if _, _, err := source.frame(&f); err != nil {
					return err
				}
			}
			raw := source.raw(&f)
			if source.window.unreadable > 0 {
				return fmt.Errorf("%s: %w: %w", source.journal.path, ErrUnreadable, source.window.err)
			}
			if err := to.add(raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepSynced has the checkpoint call durable what a damaged journal had synced. The
// journal to which the frames are moved is whole: nothing in it would say that a frame
// which is missing before them was lost, and the log would be cut there.
func (p *replayed) keepSynced(id core.PartitionID) {
	for i := range p.frames {
		if f := &p.frames[i]; f.synced && !p.dead(f.index, f.generation) && f.index > p.checkpoint.Durable {
			p.checkpoint.Partition, p.checkpoint.Durable = id, f.index
			p.checked = true
		}
	}
}

// raw is the frame's bytes as they stand in the file, good or bad.
func (x *frameSource) raw(f *located) []byte {
	_, _, _ = x.frame(f)
	return x.window.view(f.position, FrameHeaderBytes+int(f.bytes))
}

func (c *journalCopy) groupBytesMax() int {
	return int(min(core.JournalGroupBytesMax, (c.folder.journals[c.shard][0].bytes-FileHeaderBytes)/2&^(core.DiskAlignment-1)))
}

// add takes a frame into the group being made.
func (c *journalCopy) add(frame []byte) error {
	if len(c.body) > 0 && GroupHeaderBytes+len(c.body)+len(frame) > c.groupBytesMax() {
		if err := c.write(0); err != nil {
			return err
		}
	}
	c.body = append(c.body, frame...)
	return nil
}

// write ends the group.
func (c *journalCopy) write(flags GroupFlags) error {
	n := alignUp(int64(GroupHeaderBytes + len(c.body)))
	list := c.folder.journals[c.shard]
	if c.file == nil || c.position+n > list[c.at].bytes {
		if err := c.next(); err != nil {
			return err
		}
	}
	if c.position+n > list[c.at].bytes {
		return fmt.Errorf("a group of %d bytes does not fit a journal file of %d", n, list[c.at].bytes)
	}
	c.sequence++
	h := GroupHeader{
		Flags: flags, Shard: c.shard, Layout: c.folder.layout, FileGeneration: c.header.FileGeneration,
		Sequence: c.sequence, Synced: c.sequence - 1, Bytes: uint32(len(c.body)), BodyCRC: crcOf(c.body), Salt: c.header.Salt,
	}
	b := make([]byte, n)
	h.Put(b)
	copy(b[GroupHeaderBytes:], c.body)
	if _, err := c.file.WriteAt(b, c.position); err != nil {
		return err
	}
	c.position += n
	c.body = c.body[:0]
	return nil
}

// next goes on in the next file.
func (c *journalCopy) next() error {
	if err := c.close(); err != nil {
		return err
	}
	c.at++
	list := c.folder.journals[c.shard]
	if c.at == len(list) {
		return fmt.Errorf("the new journal of shard %d is too small", c.shard)
	}
	f, err := c.folder.fs.Open(JournalPath(c.folder.layout, c.shard, list[c.at].number))
	if err != nil {
		return err
	}
	c.file, c.position = f, FileHeaderBytes
	b := make([]byte, FileHeaderBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	c.header, err = ParseFileHeader(b)
	return err
}

func (c *journalCopy) close() error {
	if c.file == nil {
		return nil
	}
	if err := c.file.Sync(); err != nil {
		return err
	}
	err := c.file.Close()
	c.file = nil
	return err
}

// finish ends the copy with a group of its own, which carries the clean mark when
// all the old journals had one, and calls everything before it synced.
func (c *journalCopy) finish() error {
	if len(c.body) > 0 {
		if err := c.write(0); err != nil {
			return err
		}
	}
	if err := c.sync(); err != nil {
		return err
	}
	flags := GroupFlags(0)
	if c.clean {
		flags = GroupClean
	}
	if err := c.write(flags); err != nil {
		return err
	}
	return c.close()
}

// sync syncs what was written without giving the file up.
func (c *journalCopy) sync() error {
	if c.file == nil {
		return nil
	}
	return c.file.Sync()
}
