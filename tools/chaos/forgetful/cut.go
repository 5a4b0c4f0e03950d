//go:build linux

package main

// A cut is the loss of power: all memory is forgotten.

import (
	"errors"
	"hash/fnv"
)

func hash(seed int64, s string, n int64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	z := h.Sum64() ^ uint64(seed)*0x9e3779b97f4a7c15 ^ uint64(n)*0xd1b54a32d192ed03
	for k := 0; k < 2; k++ {
		z += 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
	}
	return z
}

type cutReport struct {
	Torn         bool   `json:"torn"`
	Seed         int64  `json:"seed"`
	DirtyFiles   int    `json:"dirty_files"`
	DirtyBlocks  int64  `json:"dirty_blocks"`
	KeptBlocks   int64  `json:"kept_blocks"`
	DirtyDirOps  int    `json:"dirty_dir_ops"`
	KeptDirOps   int    `json:"kept_dir_ops"`
	AlreadyCut   bool   `json:"already_cut"`
	BlockSize    int64  `json:"block_size"`
	ErrorMessage string `json:"error,omitempty"`
}

func (f *FS) cut(torn bool, seed int64) cutReport {
	f.big.Lock()
	defer f.big.Unlock()
	r := cutReport{Torn: torn, Seed: seed, BlockSize: f.tornBlock}
	if f.isCut {
		r.AlreadyCut = true
		return r
	}
	f.isCut = true
	f.st.Cuts.Add(1)
	fail := func(err error) {
		if err != nil && r.ErrorMessage == "" {
			r.ErrorMessage = err.Error()
		}
	}
	r.DirtyDirOps = len(f.ops)
	// Names as the application last saw them key the choices, so that the same
	// seed chooses alike whatever order files were first touched in.
	names := map[*inode]string{}
	var dirty []*inode
	for _, i := range f.sorted() {
		if i.isReg() && i.dataDirty() && (i.vnlink > 0 || i.opens > 0) {
			dirty = append(dirty, i)
			names[i] = f.vpath(i)
			for _, p := range i.pages {
				r.DirtyBlocks += int64(len(blocks(p.dirty, f.tornBlock)))
			}
		}
	}
	r.DirtyFiles = len(dirty)
	if torn {
		per := map[*inode][]uint64{}
		for _, o := range f.ops {
			for _, d := range o.dirs {
				per[d] = append(per[d], o.seq)
			}
		}
		need := map[*inode]uint64{}
		for d, seqs := range per {
			if k := hash(seed, "dir:"+f.vpath(d), 0) % uint64(len(seqs)+1); k > 0 {
				need[d] = seqs[k-1]
			}
		}
		n, err := f.commit(need)
		r.KeptDirOps = n
		fail(err)
		for _, i := range dirty {
			if len(i.dlinks) == 0 {
				continue // no durable name: nobody can see it again
			}
			i.opens++
			err := f.openBacking(i)
			if err == nil {
				var n int64
				n, err = f.tear(i, seed, names[i])
				r.KeptBlocks += n
			}
			fail(err)
		}
	}
	fail(f.reset())
	return r
}

func (f *FS) restore() error {
	f.big.Lock()
	defer f.big.Unlock()
	if !f.isCut {
		return errors.New("not cut")
	}
	f.isCut = false
	return nil
}
