package segment

import (
	"fmt"
	"sort"

	"github.com/pulsemq/pulsemq/core"
)

// restartSequences is how far a restart's first sequence lies above any seen, so
// that no sequence is ever used twice: as many groups may have been in flight.
const restartSequences = 16

// openJournal makes what was accepted durable, and writes and syncs the group that
// opens this run: it names the last accepted one, so that what was cut now is
// never replayed later.
func openJournal(s *Store, r *journalReplay) (*journal, error) {
	j := &journal{store: s}
	j.recycle.journal, j.prepare.journal = j, j
	for _, f := range r.files {
		file := &journalFile{
			number: f.listed.number, path: f.path, bytes: f.listed.bytes, generation: f.header.FileGeneration,
			salt: f.header.Salt, zeroed: max(f.size&^(core.DiskAlignment-1), FileHeaderBytes), first: f.first,
		}
		if f.bad != nil && f.first == 0 {
			file.salt = s.random()
		}
		file.generation = max(file.generation, f.maxGen)
		switch {
		case f.first != 0:
			j.live = append(j.live, file)
			if err := s.syncLive(r, f, file); err != nil {
				return nil, err
			}
		default:
			j.free = append(j.free, file)
		}
	}
	sort.Slice(j.live, func(a, b int) bool { return j.live[a].first < j.live[b].first })
	if r.head != nil {
		j.current, j.position = j.live[len(j.live)-1], r.headEnd
		core.Assert(j.current.number == r.head.listed.number, "the journal goes on in the file with the last group")
	}
	if err := j.dropSurplus(); err != nil {
		return nil, err
	}
	if j.current == nil || j.position+core.DiskAlignment > j.current.bytes {
		if err := j.startFile(); err != nil {
			return nil, err
		}
	}
	j.sequence = max(r.last, r.sequence) + restartSequences
	j.written, j.synced = j.sequence, j.sequence
	return j, j.writeRestart(r.last)
}

// dropSurplus gives up free files beyond the journal's size.
func (j *journal) dropSurplus() error {
	s := j.store
	for len(j.free) > 1 && len(j.live)+len(j.free) > s.folder.journalFiles {
		last := len(j.free) - 1
		if err := s.folder.dropJournal(s.shard, j.free[last].number); err != nil {
			return fmt.Errorf("one journal file less: %w", err)
		}
		j.free = j.free[:last]
	}
	return nil
}

// syncLive makes the groups of a file durable that were accepted from it, and
// repairs its header if that was hurt.
func (s *Store) syncLive(r *journalReplay, f *replayFile, file *journalFile) error {
	open, err := s.ports.FS.Open(f.path)
	if err != nil {
		return err
	}
	defer open.Close()
	if f.bad != nil {
		s.log.Error("the header of a journal file was damaged and is written again", "file", f.path, "error", f.bad)
		s.stats.JournalDamages++
		if err := s.writeJournalHeader(open, file); err != nil {
			return err
		}
	}
	for i := range f.groups {
		if g := &f.groups[i]; g.whole && g.Sequence > r.synced && g.Sequence <= r.last {
			if err := writeAgain(open, g.position, g.end()); err != nil {
				return err
			}
		}
	}
	return open.Sync()
}

func (s *Store) journalHeader(f *journalFile) FileHeader {
	return FileHeader{
		Kind: FileJournal, Incarnation: s.folder.Incarnation, Layout: s.folder.layout, Shard: s.shard,
		FileNumber: f.number, FileGeneration: f.generation, Salt: f.salt,
	}
}

func (s *Store) writeJournalHeader(open core.File, f *journalFile) error {
	b := core.HeapSlabs{}.Get(FileHeaderBytes).Bytes
	h := s.journalHeader(f)
	h.Put(b)
	_, err := open.WriteAt(b[:FileHeaderBytes], 0)
	return err
}

// startFile takes a free file into use at start-up. With none left, because
// starts were cut short again and again, it lists one more.
func (j *journal) startFile() error {
	s := j.store
	if len(j.free) == 0 {
		listed, err := s.folder.addJournal(s.shard, j.live[len(j.live)-1].bytes)
		if err != nil {
			return fmt.Errorf("one more journal file: %w", err)
		}
		j.free = append(j.free, &journalFile{
			number: listed.number, path: JournalPath(s.folder.layout, s.shard, listed.number), bytes: listed.bytes, zeroed: listed.bytes,
		})
	}
	f := j.free[0]
	j.free = append(j.free[:0], j.free[1:]...)
	f.generation++
	f.salt = s.random()
	open, err := s.ports.FS.Open(f.path)
	if err != nil {
		return err
	}
	defer open.Close()
	if err := s.writeJournalHeader(open, f); err != nil {
		return err
	}
	if f.zeroed < f.bytes {
		if err := zeroFile(open, f.zeroed, f.bytes); err != nil {
			return err
		}
		f.zeroed = f.bytes
	}
	if err := open.Sync(); err != nil {
		return err
	}
	j.live = append(j.live, f)
	j.current, j.position = f, FileHeaderBytes
	return nil
}

// writeRestart writes and syncs the first group of this run.
func (j *journal) writeRestart(last uint64) error {
	s, f := j.store, j.current
	open, err := s.ports.FS.Open(f.path)
	if err != nil {
		return err
	}
	defer open.Close()
	if f.zeroed < f.bytes {
		if err := zeroFile(open, f.zeroed, f.bytes); err != nil {
			return err
		}
		f.zeroed = f.bytes
	}
	b := core.HeapSlabs{}.Get(core.DiskAlignment).Bytes
	h := GroupHeader{
		Flags: GroupRestart, Shard: s.shard, Layout: s.folder.layout, FileGeneration: f.generation,
		Sequence: j.sequence, Synced: last, Salt: f.salt,
	}
	h.Put(b)
	if _, err := open.WriteAt(b[:core.DiskAlignment], j.position); err != nil {
		return err
	}
	if err := open.Sync(); err != nil {
		return err
	}
	if f.first == 0 {
		f.first = j.sequence
	}
	j.position += core.DiskAlignment
	return nil
}

// addJournal lists one more journal file of a shard.
func (d *Folder) addJournal(shard core.ShardID, bytes int64) (journalListed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	listed := journalListed{number: 1, bytes: bytes}
	for _, l := range d.journals[shard] {
		listed.number = max(listed.number, l.number+1)
	}
	name := JournalPath(d.layout, shard, listed.number)
	if err := d.fs.RemoveAll(name); err != nil { // of an interrupted try: it was not listed
		return listed, err
	}
	if err := d.createJournal(d.layout, shard, listed, true); err != nil {
		return listed, err
	}
	if err := d.fs.SyncDir(ShardDir(d.layout, shard)); err != nil {
		return listed, err
	}
	d.journals[shard] = append(d.journals[shard], listed)
	return listed, d.saveLayout()
}

// dropJournal takes a free journal file off the list and then removes it: a file that is listed must never be missing.
func (d *Folder) dropJournal(shard core.ShardID, number uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := make([]journalListed, 0, len(d.journals[shard]))
	for _, l := range d.journals[shard] {
		if l.number != number {
			kept = append(kept, l)
		}
	}
	d.journals[shard] = kept
	if err := d.saveLayout(); err != nil {
		return err
	}
	return d.fs.RemoveAll(JournalPath(d.layout, shard, number))
}

// start opens the files for the serving store and begins to prepare those that
// were never written.
func (j *journal) start() {
	for _, f := range j.live {
		j.openFile(f, false)
	}
	free := j.free
	j.free = nil
	for _, f := range free {
		j.openFile(f, true)
	}
}

// journalOpen opens a journal file at the start.
type journalOpen struct {
	journal *journal
	file    *journalFile
	free    bool
	op      core.DiskOp
}

func (j *journal) openFile(f *journalFile, free bool) {
	o := &journalOpen{journal: j, file: f, free: free}
	o.op = core.DiskOp{Kind: core.DiskOpen, Path: f.path, Owner: o}
	j.opening++
	j.retry = append(j.retry, &o.op)
	j.resubmit()
}

// resubmit tries operations again that the disk had no room for.
func (j *journal) resubmit() {
	for len(j.retry) > 0 && j.store.ports.Disk.Submit(j.retry[0]) {
		j.retry = append(j.retry[:0], j.retry[1:]...)
	}
}

// Complete takes the opened file.
func (o *journalOpen) Complete(op *core.DiskOp) {
	j := o.journal
	j.opening--
	if op.Err != nil {
		if j.err == nil {
			j.err = fmt.Errorf("%w: %w", ErrJournalFailed, op.Err)
		}
		return
	}
	o.file.file = op.File
	if o.free {
		j.prepare.add(o.file)
	}
}

// preparer makes files ready to be written: a header of a new generation, and
// zeros behind it where the file was never written, so that a later sync has no
// metadata to write.
type preparer struct {
	journal *journal
	queue   []*journalFile
	busy    bool
	header  *core.Slab
	zeros   *core.Slab
	ops     [4]core.DiskOp
	waiting int
	to      int64
	failed  error
	retryAt int64
}

func (p *preparer) add(f *journalFile) {
	p.queue = append(p.queue, f)
	p.step()
}

// step begins the next piece of work.
func (p *preparer) step() {
	j := p.journal
	if p.busy || len(p.queue) == 0 || p.retryAt > j.store.mono || j.err != nil {
		return
	}
	f := p.queue[0]
	n := 0
	add := func(op core.DiskOp) {
		op.Owner, op.File = p, f.file
		p.ops[n] = op
		if n > 0 {
			p.ops[n-1].Next = &p.ops[n]
		}
		n++
	}
	if f.zeroed < f.bytes {
		if p.zeros == nil {
			p.zeros = core.HeapSlabs{}.Get(journalZeroBytes)
		}
		length := min(journalZeroBytes, f.bytes-f.zeroed)
		p.to = f.zeroed + length
		add(core.DiskOp{Kind: core.DiskAllocate, Offset: f.zeroed, Length: length})
		add(core.DiskOp{Kind: core.DiskWrite, Buf: p.zeros.Bytes[:length], Offset: f.zeroed})
	} else {
		if p.header == nil {
			p.header = core.HeapSlabs{}.Get(FileHeaderBytes)
		}
		f.generation++
		f.salt = j.store.random()
		h := j.store.journalHeader(f)
		h.Put(p.header.Bytes)
		p.to = 0
		add(core.DiskOp{Kind: core.DiskWrite, Buf: p.header.Bytes[:FileHeaderBytes]})
		add(core.DiskOp{Kind: core.DiskSync})
	}
	p.waiting, p.failed, p.busy = n, nil, true
	if !j.store.ports.Disk.Submit(&p.ops[0]) {
		p.busy = false
	}
}

// Complete takes an ended operation.
func (p *preparer) Complete(op *core.DiskOp) {
	p.waiting--
	if op.Err != nil && p.failed == nil {
		p.failed = op.Err
	}
	if p.waiting > 0 {
		return
	}
	j, f := p.journal, p.queue[0]
	p.busy = false
	if p.failed != nil {
		// A free file holds nothing that anybody needs: it is tried again.
		j.store.log.Warn("a journal file could not be prepared", "file", f.path, "error", p.failed)
		p.retryAt = j.store.mono + writerRetryNanos
		return
	}
	if p.to > 0 {
		f.zeroed = p.to
	} else {
		p.queue = append(p.queue[:0], p.queue[1:]...)
		j.free = append(j.free, f)
	}
	if len(p.queue) == 0 {
		p.zeros = nil
	}
	p.step()
}
