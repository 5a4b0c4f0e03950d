//go:build linux

package main

// The words of a rule, as the control socket takes them.

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stallMax bounds a stall, so that a mistake in a test does not hang it for good.
const stallMax = 10 * time.Minute

const ruleUsage = "usage: fail OP WHICH ERRNO [PATH] | stall OP MS[@WHICH] [PATH] | flip read|write WHICH [PATH] | " +
	"short read|write WHICH [PATH] | power OP WHICH clean|SEED [PATH]; WHICH is N, N+ or PERMILLE%SEED"

// ruleOps are the operations that each kind of rule may name.
var ruleOps = map[string]string{
	"fail":  " write read fsync fsync-lose fsync-drop fsyncdir create mkdir link unlink rename fallocate ",
	"stall": " write read fsync fsyncdir create mkdir link unlink rename fallocate ",
	"flip":  " read write ",
	"short": " read write ",
	"power": " write read fsync fsyncdir create mkdir link unlink rename fallocate ",
}

// parseRule reads a rule's words, the first of which is its kind.
func parseRule(words []string) (*rule, error) {
	wrong := func(what string) (*rule, error) {
		return nil, fmt.Errorf("%s: %s; %s", strings.Join(words, " "), what, ruleUsage)
	}
	if len(words) < 3 {
		return wrong("words are missing")
	}
	r := &rule{text: strings.Join(words, " "), kind: words[0], op: words[1]}
	if !strings.Contains(ruleOps[r.kind], " "+r.op+" ") {
		return wrong("this operation does not go with " + r.kind)
	}
	switch r.op {
	case "fsync-lose":
		r.op, r.after = "fsync", loseDirty
	case "fsync-drop":
		r.op, r.after = "fsync", dropDirty
	}
	which, rest := words[2], words[3:]
	if r.kind == "stall" {
		text, after, chosen := strings.Cut(which, "@")
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 || time.Duration(ms) > stallMax/time.Millisecond {
			return wrong(fmt.Sprintf("%q is not between 0 and %d milliseconds", text, stallMax/time.Millisecond))
		}
		r.stall = time.Duration(ms) * time.Millisecond
		if which = "1+"; chosen {
			which = after
		}
	}
	var err error
	if r.trigger, err = parseTrigger(which); err != nil {
		return wrong(err.Error())
	}
	if r.kind == "fail" || r.kind == "power" {
		if len(rest) == 0 {
			return wrong("words are missing")
		}
		if r.kind == "fail" {
			r.errno, err = errnoByName(rest[0])
		} else if rest[0] != "clean" {
			r.torn = true
			r.seed, err = strconv.ParseInt(rest[0], 10, 64)
		}
		if err != nil {
			return wrong(err.Error())
		}
		rest = rest[1:]
	}
	r.path = strings.Split(strings.Join(rest, " "), "*")
	return r, nil
}

// parseTrigger reads N, N+ or PERMILLE%SEED.
func parseTrigger(text string) (t trigger, err error) {
	if permille, seed, chance := strings.Cut(text, "%"); chance {
		var s uint64
		if t.permille, err = strconv.Atoi(permille); err == nil {
			s, err = strconv.ParseUint(seed, 10, 64)
		}
		if err != nil || t.permille < 0 || t.permille > 1000 {
			return t, fmt.Errorf("%q is not a number up to 1000 and a seed, as 20%%7 is", text)
		}
		t.random = rand.New(rand.NewPCG(s, 0))
		return t, nil
	}
	number, onwards := strings.CutSuffix(text, "+")
	if t.n, err = strconv.ParseInt(number, 10, 64); err != nil || t.n < 1 {
		return t, fmt.Errorf("%q is not a number from 1 on", text)
	}
	t.onwards = onwards
	return t, nil
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

// errnoName is the name of an error, its number when it has none, and nothing for 0.
func errnoName(e syscall.Errno) string {
	if e == 0 {
		return ""
	}
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return strconv.Itoa(int(e))
}
