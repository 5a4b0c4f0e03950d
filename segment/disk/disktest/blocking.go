package disktest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
)

func testBlockingView(f *fixture) {
	check := func(what string, err error, want error) {
		f.Helper()
		if !errors.Is(err, want) {
			f.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	disk := f.FS
	check("make folders", disk.MakeDir("x/y"), nil)
	_, err := disk.Open("x/a")
	check("open of nothing", err, fs.ErrNotExist)
	_, err = disk.OpenRead("x/a")
	check("open of nothing to read", err, fs.ErrNotExist)
	file, err := disk.Create("x/a")
	check("create", err, nil)
	_, err = disk.Create("x/a")
	check("create of what exists", err, fs.ErrExist)

	// The blocking view needs no alignment.
	n, err := file.WriteAt([]byte("hello"), 3)
	if n != 5 || err != nil {
		f.Errorf("WriteAt: %d, %v", n, err)
	}
	buf := make([]byte, 20)
	n, err = file.ReadAt(buf, 0)
	if n != 8 || err != io.EOF || !bytes.Equal(buf[:n], []byte("\x00\x00\x00hello")) {
		f.Errorf("ReadAt: %d, %v, %q", n, err, buf[:n])
	}
	if n, err = file.ReadAt(buf[:4], 4); n != 4 || err != nil {
		f.Errorf("ReadAt inside: %d, %v", n, err)
	}
	check("allocate", file.Allocate(5, 100), nil)
	size, err := file.Size()
	if size != 105 || err != nil {
		f.Errorf("Size: %d, %v", size, err)
	}
	if _, err = file.ReadAt(buf[:8], 0); err != nil || string(buf[:8]) != "\x00\x00\x00he\x00\x00\x00" {
		f.Errorf("after an allocation: %q, %v", buf[:8], err)
	}
	check("truncate", file.Truncate(4), nil)
	if size, _ = file.Size(); size != 4 {
		f.Errorf("Size after a truncation: %d", size)
	}
	check("sync", file.Sync(), nil)
	check("close", file.Close(), nil)
	if file.Close() == nil {
		f.Error("a second close succeeded")
	}

	reader, err := disk.OpenRead("x/a")
	check("open to read", err, nil)
	if _, err = reader.WriteAt([]byte("x"), 0); err == nil {
		f.Error("a file opened for reading was written")
	}
	if n, err = reader.ReadAt(buf, 0); n != 4 || err != io.EOF {
		f.Errorf("ReadAt: %d, %v", n, err)
	}
	check("close", reader.Close(), nil)

	check("rename", disk.Rename("x/a", "x/b"), nil)
	check("sync folder", disk.SyncDir("x"), nil)
	for _, name := range []string{"c", "B", "10", "9"} {
		file, err := disk.Create("x/" + name)
		check("create", err, nil)
		check("close", file.Close(), nil)
	}
	if got, want := f.names("x"), "10 9 B b c y/"; got != want {
		f.Errorf("x holds %q, want %q", got, want)
	}
	entries, _ := disk.List("x")
	if entries[3].Size != 4 || entries[5].Size != 0 {
		f.Errorf("sizes in %v", entries)
	}
	_, err = disk.List("z")
	check("list of nothing", err, fs.ErrNotExist)
	check("remove", disk.Remove("x/9"), nil)
	check("remove of nothing", disk.Remove("x/9"), fs.ErrNotExist)
	if disk.Remove("x") == nil {
		f.Error("a folder that is not empty was removed")
	}
	check("remove all", disk.RemoveAll("x"), nil)
	check("remove all of nothing", disk.RemoveAll("x"), nil)
	if got := f.names(""); got != "" {
		f.Errorf("the data folder holds %q", got)
	}
	total, free, err := disk.Space()
	if err != nil || total <= 0 || free < 0 || free > total {
		f.Errorf("Space: %d, %d, %v", total, free, err)
	}
}
