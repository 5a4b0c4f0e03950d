package posix

import "github.com/pulsemq/pulsemq/core"

// Table gives open files their FileIDs. The shard's thread changes it; workers may
// look up the files of operations that were submitted to them, which is why it
// never moves.
type Table struct {
	files []*File // FileID-1 -> file
	free  []core.FileID
	used  int
}

// NewTable makes a table for at most filesMax open files.
func NewTable(filesMax int) *Table {
	core.Assert(filesMax > 0, "a disk can open at least one file")
	return &Table{files: make([]*File, filesMax)}
}

// Reserve takes an id for a file that is about to be opened, or 0 when the table is
// full. It happens before the open, because an open that is refused must also stop
// the operations chained behind it.
func (t *Table) Reserve() core.FileID {
	if len(t.free) > 0 {
		id := t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
		return id
	}
	if t.used < len(t.files) {
		t.used++
		return core.FileID(t.used)
	}
	return 0
}

// Set stores the open file of a reserved id.
func (t *Table) Set(id core.FileID, file *File) { t.files[id-1] = file }

// Get is the open file that id names.
func (t *Table) Get(id core.FileID) *File {
	core.Assert(id > 0 && int(id) <= len(t.files), "a file id comes from an open")
	file := t.files[id-1]
	core.Assert(file != nil, "a file is used before it is closed")
	return file
}

// Remove frees the id of a closed file, or of one that was not opened after all.
func (t *Table) Remove(id core.FileID) {
	t.files[id-1] = nil
	t.free = append(t.free, id)
}

// Close closes what is still open.
func (t *Table) Close() {
	for i, file := range t.files[:t.used] {
		if file != nil {
			_ = file.close()
			t.files[i] = nil
		}
	}
}
