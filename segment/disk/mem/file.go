package mem

import (
	"maps"
	"slices"
)

const (
	pageBytes = 4096
	// versionsMax bounds the unsynced versions remembered of one page. A crash
	// chooses among them; the oldest are the first to be forgotten.
	versionsMax = 8
)

// page is the content of 4 KiB of a file. It is never changed once it is in a
// file, so that versions and clones share it. Nil is zeros.
type page []byte

// fileData is a file's content, now and after a power cut.
//
// Invariants: durable and pages hold the same page for every number that is not in
// unsynced; the last version in unsynced is the one in pages; forsaken is part of
// unsynced. A key in pages, also
// of a nil page, is space taken.
type fileData struct {
	size  int64
	pages map[int64]page

	sizeDurable  int64
	durable      map[int64]page
	unsynced     map[int64][]page
	sizeUnsynced []int64 // sizes since the last sync, oldest first

	// forsaken are unsynced pages that a failed sync has dropped from what the next
	// one writes: the kernel marks them clean and still shows them to readers. A
	// program that syncs again and believes it loses them in a crash.
	forsaken map[int64]bool
}

func newFileData() *fileData {
	return &fileData{
		pages: map[int64]page{}, durable: map[int64]page{}, unsynced: map[int64][]page{}, forsaken: map[int64]bool{},
	}
}

// setPage gives a page a new unsynced version.
func (f *fileData) setPage(number int64, content page) {
	f.pages[number] = content
	f.remember(number, content)
}

func (f *fileData) remember(number int64, content page) {
	versions := append(f.unsynced[number], content)
	if len(versions) > versionsMax {
		versions = slices.Delete(versions, 0, 1)
	}
	f.unsynced[number] = versions
	delete(f.forsaken, number) // dirty again
}

func (f *fileData) setSize(size int64) {
	if size == f.size {
		return
	}
	f.size = size
	f.sizeUnsynced = append(f.sizeUnsynced, size)
	if len(f.sizeUnsynced) > versionsMax {
		f.sizeUnsynced = slices.Delete(f.sizeUnsynced, 0, 1)
	}
}

// readAt copies what there is from offset on and returns how many bytes.
func (f *fileData) readAt(p []byte, offset int64) int {
	if offset >= f.size {
		return 0
	}
	p = p[:min(int64(len(p)), f.size-offset)]
	for done := 0; done < len(p); {
		at := offset + int64(done)
		inPage := int(at % pageBytes)
		part := p[done:min(len(p), done+pageBytes-inPage)]
		if content := f.pages[at/pageBytes]; content == nil {
			clear(part)
		} else {
			copy(part, content[inPage:])
		}
		done += len(part)
	}
	return len(p)
}

// pagesNew is how many pages a write or an allocation of the range would take.
func (f *fileData) pagesNew(offset, length int64) int64 {
	var count int64
	for number := offset / pageBytes; number*pageBytes < offset+length; number++ {
		if _, taken := f.pages[number]; !taken {
			count++
		}
	}
	return count
}

func (f *fileData) writeAt(p []byte, offset int64) {
	for done := 0; done < len(p); {
		at := offset + int64(done)
		inPage := int(at % pageBytes)
		part := p[done:min(len(p), done+pageBytes-inPage)]
		content := make(page, pageBytes)
		copy(content, f.pages[at/pageBytes])
		copy(content[inPage:], part)
		f.setPage(at/pageBytes, content)
		done += len(part)
	}
	f.setSize(max(f.size, offset+int64(len(p))))
}

// allocate makes the range read as zeros.
func (f *fileData) allocate(offset, length int64) {
	end := offset + length
	for number := offset / pageBytes; number*pageBytes < end; number++ {
		from, to := max(offset-number*pageBytes, 0), min(end-number*pageBytes, pageBytes)
		old := f.pages[number]
		if old == nil || (from == 0 && to == pageBytes) {
			if _, taken := f.pages[number]; !taken || old != nil {
				f.setPage(number, nil)
			}
			continue
		}
		content := slices.Clone(old)
		clear(content[from:to])
		f.setPage(number, content)
	}
	f.setSize(max(f.size, end))
}

// truncate cuts or grows the file and returns how many pages became free.
func (f *fileData) truncate(size int64) int64 {
	var freed int64
	if size < f.size {
		for number := range f.pages {
			if number*pageBytes >= size {
				delete(f.pages, number)
				f.remember(number, nil)
				freed++
			}
		}
		if rest := size % pageBytes; rest != 0 {
			if old := f.pages[size/pageBytes]; old != nil {
				content := slices.Clone(old)
				clear(content[rest:])
				f.setPage(size/pageBytes, content)
			}
		}
	}
	f.setSize(size)
	return freed
}

// sync makes what the file holds now safe, except what a failed sync has forsaken.
func (f *fileData) sync() {
	for number := range f.unsynced {
		if f.forsaken[number] {
			continue
		}
		delete(f.unsynced, number)
		if content, there := f.pages[number]; there {
			f.durable[number] = content
		} else {
			delete(f.durable, number)
		}
	}
	f.sizeDurable = f.size
	f.sizeUnsynced = nil
}

// failSync is a sync that the device refused.
func (f *fileData) failSync() {
	for number := range f.unsynced {
		f.forsaken[number] = true
	}
}

func (f *fileData) clone() *fileData {
	c := *f
	c.pages = maps.Clone(f.pages)
	c.durable = maps.Clone(f.durable)
	c.unsynced = make(map[int64][]page, len(f.unsynced))
	for number, versions := range f.unsynced {
		c.unsynced[number] = slices.Clone(versions)
	}
	c.sizeUnsynced = slices.Clone(f.sizeUnsynced)
	c.forsaken = maps.Clone(f.forsaken)
	return &c
}
