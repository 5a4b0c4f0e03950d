package segment

import (
	"bytes"
	"encoding/binary"
	"path"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/segment/disk/mem"
)

// hurt is something that happened to the bytes of one file of a data folder.
type hurt struct {
	file   uint16 // which of the files, in the order of their names
	action uint8
	at     uint32
	bytes  []byte
}

const (
	hurtReplace  = iota // the file is these bytes
	hurtWrite           // these bytes stand at a position
	hurtInsert          // what stood there comes after them
	hurtTruncate        // the file ends at the position
	hurtMove            // what stands at the position is what stands at another one
	hurtFlip            // one bit
	hurtZero            // a run of zeros, as a device gives for what it lost
	hurtSwap            // the file is another file of the folder
	hurtRemove
	hurtSealed // these bytes stand at the position, and every checksum around them is made good
	hurtActions
)

// filesBelow are the paths of all files, in order.
func filesBelow(fs core.FS, dir string) (all []string) {
	entries, err := fs.List(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if e.IsDir {
			all = append(all, filesBelow(fs, name)...)
		} else {
			all = append(all, name)
		}
	}
	return all
}

// apply does it to a folder, and returns the file's name and its bytes before and after.
func (h *hurt) apply(t rigT, fs *mem.FS, files []string) (name string, before, after []byte) {
	t.Helper()
	name = files[int(h.file)%len(files)]
	r := &rig{t: t, fs: fs}
	before = r.readAll(name)
	at := 0
	if len(before) > 0 {
		at = int(h.at) % len(before)
	}
	b := bytes.Clone(before)
	switch h.action % hurtActions {
	case hurtReplace:
		b = h.bytes
	case hurtWrite:
		b = append(b[:at:at], h.bytes...)
		if len(b) < len(before) {
			b = append(b, before[len(b):]...)
		}
	case hurtInsert:
		b = append(append(b[:at:at], h.bytes...), before[at:]...)
	case hurtTruncate:
		b = b[:at]
	case hurtMove:
		if len(h.bytes) >= 4 && len(before) > 0 {
			from := int(binary.BigEndian.Uint32(h.bytes)) % len(before)
			copy(b[at:], before[from:min(len(before), from+(1+len(h.bytes))<<10)])
		}
	case hurtFlip:
		if len(b) > 0 {
			b[at] ^= 1 << (len(h.bytes) % 8)
		}
	case hurtZero:
		clear(b[at:min(len(b), at+1+len(h.bytes)<<6)])
	case hurtSwap:
		b = r.readAll(files[int(h.at)%len(files)])
	case hurtRemove:
		if err := fs.Remove(name); err != nil {
			t.Fatal(err)
		}
		return name, before, nil
	case hurtSealed:
		copy(b[at:], h.bytes)
		reseal(b, before)
	}
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if len(b) > 0 {
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return name, before, b
}

// reseal makes the checksums good of every structure whose place in the file is told
// by the bytes before they were hurt. What is checked by nothing but a checksum then
// reaches the code behind it.
func reseal(b, before []byte) {
	header, err := ParseFileHeader(before)
	if err != nil || len(b) < FileHeaderBytes {
		return
	}
	binary.BigEndian.PutUint32(b[FileHeaderBytes-4:], crcOf(b[:FileHeaderBytes-4]))
	end := len(b) - 4
	switch header.Kind {
	case FileSegment:
		resealFrames(b[FileHeaderBytes:], before[FileHeaderBytes:])
	case FileJournal:
		for at := FileHeaderBytes; at < len(before); {
			g, body, err := ParseGroup(before[at:])
			if err != nil {
				at += core.DiskAlignment
				continue
			}
			in := b[at+GroupHeaderBytes:][:len(body)]
			resealFrames(in, body)
			binary.BigEndian.PutUint32(b[at+36:], crcOf(in))
			binary.BigEndian.PutUint32(b[at+60:], crcOf(b[at:at+60]))
			at = int(alignUp(int64(at + GroupHeaderBytes + int(g.Bytes))))
		}
	case FileMeta:
		binary.BigEndian.PutUint32(b[end:], crcOf(b[FileHeaderBytes:end]))
	default:
		binary.BigEndian.PutUint32(b[end:], crcOf(b[:end]))
	}
}

// resealFrames does so for frames that stand one after the other, with padding.
func resealFrames(b, before []byte) {
	for at := 0; at+FrameHeaderBytes <= len(before); {
		_, payload, err := ParseFrame(before[at:])
		if err != nil {
			at = int(alignUp(int64(at + 1)))
			continue
		}
		in := b[at:]
		// The length is what it was when nothing was written over it.
		if n := uint64(binary.BigEndian.Uint32(in[52:])); FrameHeaderBytes+n <= uint64(len(in)) {
			binary.BigEndian.PutUint32(in[12:], crcOf(in[FrameHeaderBytes:FrameHeaderBytes+n]))
		}
		binary.BigEndian.PutUint32(in[8:], frameHeaderCRC(in))
		at += FrameHeaderBytes + len(payload)
	}
}
