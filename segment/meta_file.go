package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pulsemq/pulsemq/core"
)

// A file of meta/ is a file header, a body, and the body's checksum. There is a
// copy of each beside it, because without them nothing of the folder can be used:
// one flipped bit must not cost that.
//
// The copy is written first, and each start makes the two the same again before it
// uses what they say. So a copy that differs is of a change that was cut short: it
// is newer than the file, and everything that it names was made durable before.

const (
	copySuffix       = ".copy"
	metaFileBytesMax = 16 << 20
)

// metaFile is a file of meta/ around its body.
func (d *Folder) metaFile(layout uint32, body []byte) []byte {
	h := FileHeader{Kind: FileMeta, Incarnation: d.Incarnation, Layout: layout}
	b := make([]byte, FileHeaderBytes, FileHeaderBytes+len(body)+4)
	h.Put(b)
	b = append(b, body...)
	return binary.BigEndian.AppendUint32(b, crcOf(b[FileHeaderBytes:]))
}

// parseMetaFile decodes and verifies one.
func parseMetaFile(b []byte) (FileHeader, []byte, error) {
	h, err := ParseFileHeader(b)
	if err != nil {
		return h, nil, err
	}
	if h.Kind != FileMeta || len(b) < FileHeaderBytes+4 {
		return h, nil, fmt.Errorf("%w: %v of %d bytes where a file of meta/ is expected", ErrFileHeader, h.Kind, len(b))
	}
	body := b[FileHeaderBytes : len(b)-4]
	if binary.BigEndian.Uint32(b[len(b)-4:]) != crcOf(body) {
		return h, nil, errors.New("file of meta/: checksum mismatch")
	}
	return h, body, nil
}

// saveMeta replaces a file of meta/ and its copy.
func (d *Folder) saveMeta(name string, layout uint32, body []byte) error {
	b := d.metaFile(layout, body)
	if err := d.putMeta(name+copySuffix, b); err != nil {
		return err
	}
	return d.putMeta(name, b)
}

// putMeta replaces a file as a whole: written aside, synced, moved.
func (d *Folder) putMeta(name string, b []byte) error {
	if err := writeFile(d.fs, name+newSuffix, b, true); err != nil {
		return err
	}
	if err := d.fs.Rename(name+newSuffix, name); err != nil {
		return err
	}
	return d.fs.SyncDir(MetaDir)
}

// readMeta reads a file of meta/, or its copy when the file is damaged: bad says how. A file that
// is missing is not made up for: somebody has taken it away.
func (d *Folder) readMeta(name string) (b []byte, bad, err error) {
	b, err = readFile(d.fs, name, metaFileBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if err == nil {
		_, _, err = parseMetaFile(b)
	}
	if err == nil {
		return b, nil, nil
	}
	bad = fmt.Errorf("%w: %s: %w", ErrLayout, name, err)
	b, err = readFile(d.fs, name+copySuffix, metaFileBytesMax)
	if err == nil {
		_, _, err = parseMetaFile(b)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w; its copy does not help: %w", bad, err)
	}
	return b, bad, nil
}

func (d *Folder) loadMeta(name string) (FileHeader, []byte, error) {
	b, _, err := d.readMeta(name)
	if err != nil {
		return FileHeader{}, nil, err
	}
	return parseMetaFile(b)
}

// mendMeta makes each file of meta/ and its copy the same.
func (d *Folder) mendMeta() error {
	for _, name := range []string{identityPath, layoutPath} {
		b, bad, err := d.readMeta(name)
		if err != nil {
			return err
		}
		if bad != nil {
			d.log.Error("a file of meta/ was damaged and is written again from its copy", "file", name, "error", bad)
			if err := d.putMeta(name, b); err != nil {
				return err
			}
		}
		copied, err := readFile(d.fs, name+copySuffix, metaFileBytesMax)
		if err == nil && bytes.Equal(copied, b) {
			continue
		}
		d.log.Info("the copy of a file of meta/ differs or is missing, and is written again", "file", name+copySuffix)
		if err := d.putMeta(name+copySuffix, b); err != nil {
			// A whole one of another time must not stay: it would be taken for the truth.
			if checkMetaFile(copied) == nil || !errors.Is(err, core.ErrDiskFull) {
				return err
			}
			d.log.Warn("it could not be written, the disk is full; a start with more room writes it", "file", name+copySuffix)
		}
	}
	return nil
}

// checkMetaFile verifies a file of meta/.
func checkMetaFile(b []byte) error {
	_, _, err := parseMetaFile(b)
	return err
}
