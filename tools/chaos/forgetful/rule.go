//go:build linux

package main

// Rules say which operations fail and how. The control socket arms them; every operation is held against all of them.

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// rulesMax bounds what one operation is held against.
const rulesMax = 256

// rule is one armed fault. Guarded by FS.fmu.
type rule struct {
	number  int64
	text    string // as it was armed
	kind    string // fail, stall, flip, short or power
	op      string
	path    pathPattern
	trigger trigger
	errno   syscall.Errno // fail
	after   afterFailure  // fail
	stall   time.Duration
	torn    bool  // power
	seed    int64 // power

	seen  int64 // operations of this kind on such a path
	fired int64
	last  string // the path of the newest one that fired
}

// afterFailure is what becomes of the data of an fsync that failed.
type afterFailure uint8

const (
	keepDirty afterFailure = iota // a retry may succeed
	loseDirty                     // it stays visible, and no later fsync writes it
	dropDirty                     // it is gone at once
)

// trigger says which of the operations seen are hit: one, every one from a number on, or each by chance.
type trigger struct {
	n        int64 // counts from 1
	onwards  bool
	permille int
	random   *rand.Rand // only with permille
}

// hits is asked once for each operation, with its number.
func (t *trigger) hits(seen int64) bool {
	if t.random != nil {
		return t.random.IntN(1000) < t.permille
	}
	return seen == t.n || t.onwards && seen > t.n
}

// pathPattern is text that a path contains; a star stands for anything between two parts of it.
type pathPattern []string

func (p pathPattern) matches(path string) bool {
	for _, part := range p {
		at := strings.Index(path, part)
		if at < 0 {
			return false
		}
		path = path[at+len(part):]
	}
	return true
}

// action is what the rules make of one operation.
type action struct {
	errno       syscall.Errno
	after       afterFailure
	flip, short bool
}

// meet holds an operation against the rules, waits if one says so, and cuts the power if one says so. It is called
// before enter, so that a cut does not wait for an operation that is stalled.
func (f *FS) meet(op string, i *inode, name string) (a action) {
	if f.armed.Load() == 0 {
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
	var stall time.Duration
	var power *rule
	f.fmu.Lock()
	for _, r := range f.rules {
		if r.op != op || !r.path.matches(path) {
			continue
		}
		r.seen++
		if !r.trigger.hits(r.seen) {
			continue
		}
		r.fired++
		r.last = path
		f.injected[strings.TrimSpace(r.kind+" "+r.op+" "+errnoName(r.errno))]++
		f.st.Faults.Add(1)
		switch r.kind {
		case "stall":
			stall = max(stall, r.stall)
		case "fail":
			a.errno, a.after = r.errno, r.after
		case "flip":
			a.flip = true
		case "short":
			a.short = true
		case "power":
			power = r
		}
	}
	f.fmu.Unlock()
	if power != nil {
		f.cut(power.torn, power.seed)
	}
	f.wait(stall)
	return
}

// wait lets time pass until a cut, or until no rule is armed any more.
func (f *FS) wait(stall time.Duration) {
	for end := time.Now().Add(stall); time.Now().Before(end); {
		time.Sleep(min(5*time.Millisecond, time.Until(end)))
		f.big.RLock()
		off := f.isCut
		f.big.RUnlock()
		if off || f.armed.Load() == 0 {
			return
		}
	}
}

// meetName is meet for an operation on a name in a folder.
func (f *FS) meetName(op string, dir uint64, name string) action {
	if f.armed.Load() == 0 {
		return action{}
	}
	f.big.RLock()
	d := f.node(dir)
	f.big.RUnlock()
	return f.meet(op, d, name)
}

// flip makes one bit wrong.
func flip(b []byte) {
	if len(b) > 0 {
		b[len(b)/2] ^= 1
	}
}

// shorten is how much of n bytes a short write or read takes: half, in whole sectors if it can.
func shorten(n int) int {
	if n < 2 {
		return n
	}
	half := n / 2
	if half >= secSize {
		half -= half % secSize
	}
	return half
}

// arm adds a rule and returns its number.
func (f *FS) arm(r *rule) (int64, error) {
	f.fmu.Lock()
	defer f.fmu.Unlock()
	if len(f.rules) >= rulesMax {
		return 0, fmt.Errorf("%d rules are armed, and no more than that can be: clear some", rulesMax)
	}
	f.ruleNumber++
	r.number = f.ruleNumber
	f.rules = append(f.rules, r)
	f.armed.Store(int32(len(f.rules)))
	return r.number, nil
}

// disarm takes away one rule, or all with number 0. What they injected stays counted.
func (f *FS) disarm(number int64) error {
	f.fmu.Lock()
	defer f.fmu.Unlock()
	kept := f.rules[:0]
	for _, r := range f.rules {
		if number != 0 && r.number != number {
			kept = append(kept, r)
		}
	}
	found := len(kept) < len(f.rules)
	clear(f.rules[len(kept):])
	f.rules = kept
	f.armed.Store(int32(len(kept)))
	if number != 0 && !found {
		return fmt.Errorf("no rule %d is armed", number)
	}
	return nil
}

// ruleReport is a rule as the control socket shows it.
type ruleReport struct {
	Number int64  `json:"number"`
	Rule   string `json:"rule"`
	Seen   int64  `json:"seen"`
	Fired  int64  `json:"fired"`
	Last   string `json:"last,omitempty"`
}

func (f *FS) ruleReports() []ruleReport {
	f.fmu.Lock()
	defer f.fmu.Unlock()
	reports := make([]ruleReport, 0, len(f.rules))
	for _, r := range f.rules {
		reports = append(reports, ruleReport{r.number, r.text, r.seen, r.fired, r.last})
	}
	return reports
}

// injections is how often each kind of fault was injected since the start, also by rules that are gone.
func (f *FS) injections() map[string]int64 {
	f.fmu.Lock()
	defer f.fmu.Unlock()
	counts := make(map[string]int64, len(f.injected))
	for kind, n := range f.injected {
		counts[kind] = n
	}
	return counts
}
