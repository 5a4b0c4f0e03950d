package segment

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"sync"

	"github.com/pulsemq/pulsemq/core"
)

// FolderOptions say how a data folder is made or changed at start-up.
type FolderOptions struct {
	// Shards is the number of shards that the node runs with.
	Shards int
	// JournalBytes is the size of one shard's journal, JournalFileBytes that of one of its files.
	JournalBytes, JournalFileBytes int64
	// Rand gives the identity and the salts; nil is crypto/rand.
	Rand io.Reader
	Log  *slog.Logger
}

const (
	// JournalFileBytesDefault and JournalFilesDefault make a journal of 256 MiB per shard.
	JournalFileBytesDefault = 64 << 20
	JournalFilesDefault     = 4
	// JournalFileBytesMin holds a header and a few groups with the largest gathered frame.
	JournalFileBytesMin = 1 << 20
	// journalFilesMin is one to write to, one that is being emptied, and one free.
	journalFilesMin = 3
	// journalFilesMax bounds the list in meta/.
	journalFilesMax = 1024

	identityPath = MetaDir + "/identity"
	layoutPath   = MetaDir + "/layout"
)

// Folder is a data folder that has been opened: its identity, the layout of its
// shards, the list of their journal files.
type Folder struct {
	fs   core.FS
	log  *slog.Logger
	rand io.Reader

	// Incarnation is random per data folder, so that a foreign or restored file is
	// recognised. ClusterID is given at the first start.
	Incarnation [16]byte
	ClusterID   string

	mu       sync.Mutex // shards open in parallel and may each list one more file
	layout   uint32
	shards   int
	journals [][]journalListed // per shard

	journalFiles int // how many each shard should have; a change of the shard count or cut starts can make more
}

// journalListed is a journal file as meta/layout lists it. One that is missing is
// loss, never a fresh start.
type journalListed struct {
	number uint32
	bytes  int64
}

// Shards is the number of shards of the layout.
func (d *Folder) Shards() int { return d.shards }

// Layout numbers the shard layout; it rises when the number of shards changes.
func (d *Folder) Layout() uint32 { return d.layout }

// OpenFolder opens a data folder, makes it on the first start, and moves the
// journals when the number of shards changed. It blocks. Each step may be cut by
// a crash and is repeated or finished by the next start.
func OpenFolder(files core.FS, o FolderOptions) (*Folder, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	d := &Folder{fs: files, log: o.Log, rand: o.Rand, journalFiles: int(o.JournalBytes / o.JournalFileBytes)}
	identity, err := d.exists(identityPath)
	if err != nil {
		return nil, err
	}
	layout, err := d.exists(layoutPath)
	if err != nil {
		return nil, err
	}
	if !identity || !layout {
		if err := d.refuseUsed(identity, layout); err != nil {
			return nil, err
		}
		if err := d.create(identity, &o); err != nil {
			return nil, fmt.Errorf("make the data folder: %w", err)
		}
		return d, nil
	}
	if err := d.loadIdentity(); err != nil {
		return nil, err
	}
	if err := d.loadLayout(); err != nil {
		return nil, err
	}
	if err := d.mendMeta(); err != nil {
		return nil, err
	}
	// The process before may have ended between giving these files their names and making the names durable: what
	// follows from them, such as to remove another layout, must not become durable before.
	if err := files.SyncDir(MetaDir); err != nil {
		return nil, err
	}
	if err := d.removeOtherLayouts(); err != nil {
		return nil, err
	}
	if d.shards != o.Shards {
		if err := d.changeShards(&o); err != nil {
			return nil, fmt.Errorf("change from %d shards to %d: %w", d.shards, o.Shards, err)
		}
	}
	if err := files.MakeDir(TopicsDir); err != nil {
		return nil, err
	}
	return d, files.SyncDir(".")
}

func (o *FolderOptions) complete() error {
	if o.Shards < 1 || o.Shards > core.ShardsMax {
		return fmt.Errorf("%w: %d shards, allowed are 1 to %d", ErrLayout, o.Shards, core.ShardsMax)
	}
	if o.JournalFileBytes == 0 {
		o.JournalFileBytes = JournalFileBytesDefault
	}
	if o.JournalBytes == 0 {
		o.JournalBytes = JournalFilesDefault * o.JournalFileBytes
	}
	if o.JournalFileBytes < JournalFileBytesMin || o.JournalFileBytes%core.DiskAlignment != 0 || o.JournalFileBytes > 1<<30 {
		return fmt.Errorf("%w: journal files of %d bytes, allowed are multiples of %d from %d to %d", ErrLayout,
			o.JournalFileBytes, core.DiskAlignment, JournalFileBytesMin, 1<<30)
	}
	if n := o.JournalBytes / o.JournalFileBytes; n < journalFilesMin || n > journalFilesMax {
		return fmt.Errorf("%w: a journal of %d bytes in files of %d makes %d files, allowed are %d to %d", ErrLayout,
			o.JournalBytes, o.JournalFileBytes, n, journalFilesMin, journalFilesMax)
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func (d *Folder) exists(name string) (bool, error) {
	f, err := d.fs.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// refuseUsed keeps a folder that lost its meta/ from being taken for a new one.
// The layout is written last, and topics/ is made after it.
func (d *Folder) refuseUsed(identity, layout bool) error {
	if layout {
		return fmt.Errorf("%w: %s is missing, %s is there: restore it or start with another folder", ErrLayout, identityPath, layoutPath)
	}
	entries, err := d.fs.List(TopicsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s is missing although %s/ holds data: restore it or start with another folder", ErrLayout, layoutPath, TopicsDir)
	}
	return nil
}

// create makes a folder from nothing or from what an interrupted try left. The
// layout file comes last: without it nothing was ever stored.
func (d *Folder) create(identity bool, o *FolderOptions) error {
	if err := d.fs.MakeDir(MetaDir); err != nil {
		return err
	}
	if err := d.fs.SyncDir("."); err != nil {
		return err
	}
	if identity {
		if err := d.loadIdentity(); err != nil {
			return err
		}
	} else {
		var b [32]byte
		if _, err := io.ReadFull(d.rand, b[:]); err != nil {
			return err
		}
		copy(d.Incarnation[:], b[:16])
		d.ClusterID = hex.EncodeToString(b[16:])
		if err := d.saveMeta(identityPath, 0, b[16:]); err != nil {
			return err
		}
	}
	if err := d.removeOtherLayouts(); err != nil {
		return err
	}
	d.shards, d.layout = o.Shards, 1
	d.journals = make([][]journalListed, o.Shards)
	for shard := range d.journals {
		for n := range o.JournalBytes / o.JournalFileBytes {
			d.journals[shard] = append(d.journals[shard], journalListed{uint32(n + 1), o.JournalFileBytes})
		}
	}
	if err := d.createJournals(d.layout, d.journals); err != nil {
		return err
	}
	if err := d.saveLayout(); err != nil {
		return err
	}
	if err := d.fs.MakeDir(TopicsDir); err != nil {
		return err
	}
	return d.fs.SyncDir(".")
}

// createJournals makes a layout's folders and files durable. The first file of a
// shard is written with zeros at once, the others in the background after the start.
func (d *Folder) createJournals(layout uint32, journals [][]journalListed) error {
	for shard := range journals {
		dir := ShardDir(layout, core.ShardID(shard))
		if err := d.fs.MakeDir(dir); err != nil {
			return err
		}
		for i, listed := range journals[shard] {
			if err := d.createJournal(layout, core.ShardID(shard), listed, i == 0); err != nil {
				return err
			}
		}
		if err := d.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := d.fs.SyncDir(LayoutDir(layout)); err != nil {
		return err
	}
	return d.fs.SyncDir(".")
}

func (d *Folder) createJournal(layout uint32, shard core.ShardID, listed journalListed, zero bool) error {
	f, err := d.fs.Create(JournalPath(layout, shard, listed.number))
	if err != nil {
		return err
	}
	defer f.Close()
	h := FileHeader{
		Kind: FileJournal, Incarnation: d.Incarnation, Layout: layout, Shard: shard, FileNumber: listed.number,
		FileGeneration: 1, Salt: d.salt(),
	}
	b := core.HeapSlabs{}.Get(FileHeaderBytes).Bytes
	h.Put(b)
	if _, err := f.WriteAt(b[:FileHeaderBytes], 0); err != nil {
		return err
	}
	if zero {
		if err := zeroFile(f, FileHeaderBytes, listed.bytes); err != nil {
			return err
		}
	}
	return f.Sync()
}

// zeroFile writes zeros over [from, to), so that later syncs have no metadata to write.
func zeroFile(f core.File, from, to int64) error {
	if err := f.Allocate(from, to-from); err != nil {
		return err
	}
	zeros := core.HeapSlabs{}.Get(journalZeroBytes).Bytes
	for at := from; at < to; {
		n := min(int64(len(zeros)), to-at)
		if _, err := f.WriteAt(zeros[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func (d *Folder) salt() uint64 {
	var b [8]byte
	if _, err := io.ReadFull(d.rand, b[:]); err != nil {
		panic("no random numbers: " + err.Error())
	}
	return binary.BigEndian.Uint64(b[:])
}

func (d *Folder) loadIdentity() error {
	h, body, err := d.loadMeta(identityPath)
	if err != nil {
		return err
	}
	if len(body) != 16 {
		return fmt.Errorf("%w: %s: a cluster id of %d bytes, 16 are expected", ErrLayout, identityPath, len(body))
	}
	d.Incarnation, d.ClusterID = h.Incarnation, hex.EncodeToString(body)
	return nil
}

// saveLayout stores the layout: shards u32, and for each the count u32 of its
// files, and for each of those number u32 and bytes u64.
func (d *Folder) saveLayout() error { return d.saveMeta(layoutPath, d.layout, d.layoutBody()) }

func (d *Folder) layoutBody() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(d.shards))
	for _, list := range d.journals {
		b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
		for _, f := range list {
			b = binary.BigEndian.AppendUint32(b, f.number)
			b = binary.BigEndian.AppendUint64(b, uint64(f.bytes))
		}
	}
	return b
}

func (d *Folder) loadLayout() error {
	h, b, err := d.loadMeta(layoutPath)
	if err != nil {
		return err
	}
	bad := fmt.Errorf("%w: %s: its lists do not add up", ErrLayout, layoutPath)
	if h.Incarnation != d.Incarnation {
		return fmt.Errorf("%w: %s: incarnation %x, the folder is %x", ErrFileForeign, layoutPath, h.Incarnation, d.Incarnation)
	}
	if len(b) < 4 {
		return bad
	}
	d.layout, d.shards = h.Layout, int(binary.BigEndian.Uint32(b))
	if d.shards < 1 || d.shards > core.ShardsMax {
		return bad
	}
	b = b[4:]
	for range d.shards {
		if len(b) < 4 {
			return bad
		}
		n := binary.BigEndian.Uint32(b)
		b = b[4:]
		if n == 0 || uint64(len(b)) < uint64(n)*12 {
			return bad
		}
		var list []journalListed
		for range n {
			list = append(list, journalListed{binary.BigEndian.Uint32(b), int64(binary.BigEndian.Uint64(b[4:]))})
			b = b[12:]
		}
		d.journals = append(d.journals, list)
	}
	if len(b) != 0 {
		return bad
	}
	return nil
}

// removeOtherLayouts removes what an interrupted change of the shard count left:
// a new layout that was not switched to, or an old one that was left behind.
func (d *Folder) removeOtherLayouts() error {
	entries, err := d.fs.List(".")
	if err != nil {
		return err
	}
	removed := false
	for _, e := range entries {
		if e.IsDir && strings.HasPrefix(e.Name, "layout-") && (d.layout == 0 || e.Name != LayoutDir(d.layout)) {
			if err := d.fs.RemoveAll(path.Clean(e.Name)); err != nil {
				return err
			}
			removed = true
		}
	}
	if !removed {
		return nil
	}
	return d.fs.SyncDir(".")
}
