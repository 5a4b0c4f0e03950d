package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"

	"github.com/pulsemq/pulsemq/core"
)

// QuarantineDir keeps what belongs to no known partition.
const QuarantineDir = "quarantine"

// QuarantinePath is the file that keeps frames of an unknown partition which only
// the journal held. Its content is whole frames, one after the other.
func QuarantinePath(id core.PartitionID, sequence uint64) string {
	return path.Join(QuarantineDir, fmt.Sprintf("partition-%d-%d.frames", id, sequence))
}

// Quarantine keeps the journal's frames of partitions that known does not know
// in files of their own, before recycling could drop them, and reports them.
// Partitions with a recorded deletion count as known; for those that are known and
// could not be opened there is Hold. It blocks and is called after the last OpenLog.
func (s *Store) Quarantine(known func(core.PartitionID) bool) error {
	core.Assert(!s.started, "quarantine comes before the start")
	var ids []core.PartitionID
	for id, p := range s.replay.partitions {
		if !p.opened && !p.refused && len(p.frames) > 0 && !known(id) {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	var source frameSource
	source.init(s)
	defer source.close()
	for _, id := range ids {
		var b []byte
		for i := range s.replay.partitions[id].frames {
			f := located{replayFrame: s.replay.partitions[id].frames[i]}
			if f.bad {
				continue
			}
			_, raw, err := source.frame(&f)
			if err != nil {
				return err
			}
			b = append(b, raw...)
		}
		if err := s.ports.FS.MakeDir(QuarantineDir); err != nil {
			return err
		}
		name := QuarantinePath(id, s.journal.sequence)
		if err := writeFile(s.ports.FS, name, b, true); err != nil {
			return err
		}
		if err := s.ports.FS.SyncDir(QuarantineDir); err != nil {
			return err
		}
		if err := s.ports.FS.SyncDir("."); err != nil {
			return err
		}
		s.stats.Quarantined++
		s.log.Error("frames of a partition that the metadata does not know were put into quarantine", "partition", uint64(id), "file", name, "bytes", len(b))
	}
	return nil
}

// QuarantineFolders moves the folders of unknown partitions below topics/ into
// quarantine, by name. It is called once per data folder, after the metadata has
// been replayed.
func (d *Folder) QuarantineFolders(known func(topic core.TopicID, number core.PartitionNumber, id core.PartitionID) bool) (moved []string, err error) {
	topics, err := d.fs.List(TopicsDir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	for _, t := range topics {
		topic, err := core.ParseTopicID(t.Name)
		if err != nil || topic.String() != t.Name {
			d.log.Error("a folder that is no topic's lies in topics/ and is left alone", "name", t.Name)
			continue
		}
		parts, err := d.fs.List(path.Join(TopicsDir, t.Name))
		if err != nil {
			return moved, err
		}
		for _, p := range parts {
			n, err := strconv.ParseUint(p.Name, 10, 32)
			dir := path.Join(TopicsDir, t.Name, p.Name)
			// One that is not written as PartitionDir writes it is never opened.
			if err == nil && dir == PartitionDir(topic, core.PartitionNumber(n)) && known(topic, core.PartitionNumber(n), d.partitionOf(dir)) {
				continue
			}
			to := path.Join(QuarantineDir, t.Name, p.Name)
			if err := d.fs.MakeDir(path.Dir(to)); err != nil {
				return moved, err
			}
			if err := d.fs.Rename(dir, to); err != nil {
				return moved, err
			}
			for _, folder := range []string{path.Dir(to), QuarantineDir, ".", path.Dir(dir)} {
				if err := d.fs.SyncDir(folder); err != nil {
					return moved, err
				}
			}
			d.log.Error("the folder of a partition that the metadata does not know was put into quarantine", "folder", dir, "to", to)
			moved = append(moved, to)
		}
	}
	return moved, nil
}

// partitionOf reads the partition's id from a segment's header; 0 unknown.
func (d *Folder) partitionOf(dir string) core.PartitionID {
	entries, err := d.fs.List(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if _, _, extension, ok := ParseSegmentName(e.Name); !ok || extension != LogExtension {
			continue
		}
		f, err := d.fs.OpenRead(path.Join(dir, e.Name))
		if err != nil {
			return 0
		}
		b := make([]byte, FileHeaderBytes)
		_, err = f.ReadAt(b, 0)
		f.Close()
		if h, e := ParseFileHeader(b); err == nil && e == nil {
			return h.Partition
		}
	}
	return 0
}
