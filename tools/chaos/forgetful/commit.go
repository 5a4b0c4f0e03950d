//go:build linux

package main

// A commit makes the operations of a folder durable, in their order, with whatever these depend on.

import (
	"log"

	"golang.org/x/sys/unix"
)

// commit makes durable, for each directory in need, its operations up to that
// sequence number, in order, with whatever those depend on.  ns held.
func (f *FS) commit(need map[*inode]uint64) (int, error) {
	if len(f.ops) == 0 || len(need) == 0 {
		return 0, nil
	}
	var all uint64
	take := make([]bool, len(f.ops))
	n := 0
	for k := len(f.ops) - 1; k >= 0; k-- {
		o := f.ops[k]
		hit := o.seq <= all
		for _, d := range o.dirs {
			hit = hit || o.seq <= need[d]
		}
		if !hit {
			continue
		}
		take[k] = true
		n++
		for _, d := range o.dirs {
			need[d] = max(need[d], o.seq)
		}
		if o.barrier {
			all = max(all, o.seq)
		}
	}
	if n == 0 {
		return 0, nil
	}
	touched := map[string]bool{}
	var rest, done []*dirop
	var err error
	for k, o := range f.ops {
		if take[k] && err == nil {
			if err = f.applyOp(o, touched); err == nil {
				done = append(done, o)
				continue
			}
			log.Printf("forgetful: commit: %v", err)
		}
		rest = append(rest, o)
	}
	f.ops = rest
	for _, o := range done {
		f.pend(o, -1)
	}
	for _, o := range done {
		for _, i := range []*inode{o.ino, o.t, o.d1, o.d2} {
			if i != nil {
				f.maybeFree(i)
			}
		}
	}
	if f.realSync.Load() {
		for p := range touched {
			if fd, e := unix.Open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); e == nil {
				if e := unix.Fsync(fd); e != nil && err == nil {
					err = e
				}
				unix.Close(fd)
			}
		}
	}
	return len(done), err
}

// commitNames makes durable the names of a file and, where they have none yet,
// of the directories above it (--ext4).  ns held.
func (f *FS) commitNames(i *inode) error {
	if len(f.ops) == 0 || i.vnlink == 0 {
		return nil
	}
	want := map[*inode]bool{i: true}
	need := map[*inode]uint64{}
	for changed := true; changed; {
		changed = false
		for _, o := range f.ops {
			if !(want[o.ino] || (o.kind == opExchange && want[o.t])) || o.kind == opRemove {
				continue
			}
			for _, d := range o.dirs {
				if need[d] < o.seq {
					need[d] = o.seq
					changed = true
				}
				if d != f.root && len(d.dlinks) == 0 && !want[d] {
					want[d] = true
					changed = true
				}
			}
		}
	}
	_, err := f.commit(need)
	return err
}
