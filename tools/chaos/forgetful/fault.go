//go:build linux

package main

// Faults that the control socket arms, and how an operation meets them.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type fault struct {
	kind, op, sub string
	n, seen       int64
	plus          bool
	errno         syscall.Errno
	ms            int64
}

type action struct {
	errno       syscall.Errno
	lose        bool
	flip, short bool
}

// fault counts an operation against the armed faults.  Call before enter.
func (f *FS) fault(op string, i *inode, name string) (a action) {
	if f.nfaults.Load() == 0 {
		return
	}
	f.ns.Lock()
	path := ""
	if i != nil {
		path = f.vpath(i)
	}
	f.ns.Unlock()
	if name != "" {
		path = strings.TrimSuffix(path, "/") + "/" + name
	}
	var stall int64
	f.fmu.Lock()
	for _, x := range f.faults {
		lose := x.op == "fsync-lose" && op == "fsync"
		if (x.op != op && !lose) || !strings.Contains(path, x.sub) {
			continue
		}
		x.seen++
		if x.kind != "stall" && x.seen != x.n && !(x.plus && x.seen > x.n) {
			continue
		}
		f.st.Faults.Add(1)
		switch x.kind {
		case "stall":
			stall = max(stall, x.ms)
		case "fail":
			a.errno, a.lose = x.errno, lose
		case "flip":
			a.flip = true
		case "short":
			a.short = true
		}
	}
	f.fmu.Unlock()
	for end := time.Now().Add(time.Duration(stall) * time.Millisecond); stall > 0 && time.Now().Before(end); {
		time.Sleep(min(5*time.Millisecond, time.Until(end)))
		f.big.RLock()
		off := f.isCut
		f.big.RUnlock()
		if off || f.nfaults.Load() == 0 {
			break
		}
	}
	return
}

func (f *FS) faultAt(op string, dir uint64, name string) action {
	if f.nfaults.Load() == 0 {
		return action{}
	}
	f.big.RLock()
	d := f.node(dir)
	f.big.RUnlock()
	return f.fault(op, d, name)
}

func flip(b []byte) {
	if len(b) > 0 {
		b[len(b)/2] ^= 1
	}
}

func errnoByName(s string) (syscall.Errno, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 4096 {
		return syscall.Errno(n), nil
	}
	for n := syscall.Errno(1); n < 134; n++ {
		if unix.ErrnoName(n) == strings.ToUpper(s) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("unknown errno %q", s)
}

var faultOps = map[string]string{
	"fail":  " write read fsync fsync-lose fsyncdir create mkdir link unlink rename fallocate ",
	"stall": " write read fsync fsyncdir create mkdir link unlink rename fallocate ",
	"flip":  " read write ",
	"short": " write ",
}

func parseFault(w []string) (*fault, error) {
	use := errors.New("usage: fail OP N[+] ERRNO [SUBSTR] | stall OP MS [SUBSTR] | flip read|write N[+] [SUBSTR] | short write N[+] [SUBSTR]")
	if len(w) < 3 {
		return nil, use
	}
	x := &fault{kind: w[0], op: w[1]}
	if !strings.Contains(faultOps[x.kind], " "+x.op+" ") {
		return nil, fmt.Errorf("%s %s: not supported; %v", x.kind, x.op, use)
	}
	rest := w[3:]
	if x.kind == "stall" {
		ms, err := strconv.ParseInt(w[2], 10, 64)
		if err != nil || ms < 0 {
			return nil, use
		}
		x.ms = ms
	} else {
		s, plus := strings.CutSuffix(w[2], "+")
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 1 {
			return nil, use
		}
		x.n, x.plus = n, plus
	}
	if x.kind == "fail" {
		if len(rest) == 0 {
			return nil, use
		}
		e, err := errnoByName(rest[0])
		if err != nil {
			return nil, err
		}
		x.errno, rest = e, rest[1:]
	}
	x.sub = strings.Join(rest, " ")
	return x, nil
}
