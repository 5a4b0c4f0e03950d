//go:build linux

package main

// What the control socket tells: counts, and what a cut would drop.

import (
	"fmt"
	"strings"
)

func (f *FS) stats() map[string]any {
	f.big.Lock()
	defer f.big.Unlock()
	var dirtyBytes, lost int64
	files := 0
	for _, i := range f.nodes {
		if !i.isReg() || !i.dataDirty() {
			for _, p := range i.pages {
				lost += int64(popcount(p.lost)) * secSize
			}
			continue
		}
		files++
		for _, p := range i.pages {
			dirtyBytes += int64(popcount(p.dirty)) * secSize
			lost += int64(popcount(p.lost)) * secSize
		}
	}
	return map[string]any{
		"writes": f.st.Writes.Load(), "dsync_writes": f.st.Dsync.Load(), "reads": f.st.Reads.Load(),
		"fsyncs": f.st.Fsyncs.Load(), "fsyncdirs": f.st.Fsyncdirs.Load(),
		"bytes_written": f.st.BytesWritten.Load(), "bytes_read": f.st.BytesRead.Load(),
		"dirty_bytes": dirtyBytes, "lost_bytes": lost, "dirty_files": files, "dirty_dir_ops": len(f.ops),
		"cuts": f.st.Cuts.Load(), "faults_fired": f.st.Faults.Load(), "injected": f.injections(), "cut": f.isCut,
	}
}

// dirtyList names what a cut would lose.
func (f *FS) dirtyList() map[string]any {
	f.big.Lock()
	defer f.big.Unlock()
	ops := []string{}
	for _, o := range f.ops {
		s := fmt.Sprintf("%s %s/%s", opNames[o.kind], strings.TrimSuffix(f.vpath(o.d1), "/"), o.n1)
		if o.d2 != nil {
			s += fmt.Sprintf(" %s/%s", strings.TrimSuffix(f.vpath(o.d2), "/"), o.n2)
		}
		ops = append(ops, s)
	}
	files := map[string]any{}
	for _, i := range f.sorted() {
		if i.isReg() && i.dataDirty() {
			n := 0
			for _, p := range i.pages {
				n += popcount(p.dirty) * secSize
			}
			files[f.vpath(i)] = map[string]int64{"dirty_bytes": int64(n), "size": i.vsize, "durable_size": i.dsize}
		}
	}
	return map[string]any{"dir_ops": ops, "files": files}
}
