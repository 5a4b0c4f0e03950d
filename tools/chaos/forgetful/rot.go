//go:build linux

package main

// Rot is what a disk does to bytes at rest: bits of the durable state change without anybody having written.

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

const (
	rotMax   = 1000
	rotTries = 200
)

// rotten is a place where one bit was changed.
type rotten struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Bit    int    `json:"bit"`
}

// rot changes count bits in the durable bytes of the files that match, and returns where. It looks for bytes that are
// not zero: space that is reserved and unused may rot without harm. Blocks that were written and not yet synced hide
// what rots below them, as a cache does.
func (f *FS) rot(count int, seed uint64, pattern pathPattern) ([]rotten, error) {
	if count < 1 || count > rotMax {
		return nil, fmt.Errorf("rot of %d bits; 1 to %d are possible", count, rotMax)
	}
	f.big.Lock()
	defer f.big.Unlock()
	var files []string
	var sizes []int64
	total := int64(0)
	err := filepath.WalkDir(f.backing, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !pattern.matches(strings.TrimPrefix(path, f.backing)) {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > 0 {
			files, sizes = append(files, path), append(sizes, info.Size())
			total += info.Size()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	var places []rotten
	for tries := 0; len(places) < count && tries < rotTries*count && total > 0; tries++ {
		at, i := random.Int64N(total), 0
		for at >= sizes[i] {
			at -= sizes[i]
			i++
		}
		place := rotten{Path: strings.TrimPrefix(files[i], f.backing), Offset: at, Bit: random.IntN(8)}
		done, err := rotByte(files[i], at, byte(1)<<place.Bit)
		if err != nil {
			return places, err
		}
		if done {
			places = append(places, place)
		}
	}
	f.fmu.Lock()
	f.injected["rot"] += int64(len(places))
	f.fmu.Unlock()
	f.st.Faults.Add(int64(len(places)))
	if len(places) < count {
		return places, fmt.Errorf("no more than %d of %d bits could be changed: %d files match, with %d bytes", len(places), count, len(files), total)
	}
	return places, nil
}

// rotByte changes a byte unless it is zero.
func rotByte(path string, offset int64, mask byte) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	var b [1]byte
	if _, err := file.ReadAt(b[:], offset); err != nil || b[0] == 0 {
		return false, err
	}
	b[0] ^= mask
	_, err = file.WriteAt(b[:], offset)
	return err == nil, err
}
