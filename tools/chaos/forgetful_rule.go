package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ruleWait bounds the wait for a rule to hit. Under load each operation comes many times a second.
const ruleWait = 20 * time.Second

// diskRule is a rule that is armed, as the disk reports it.
type diskRule struct {
	Number int
	Rule   string
	Seen   int
	Fired  int
	Last   string // the path of the newest operation that it hit
}

// arm makes the disk fail as a rule says, and returns the rule's number.
func (d *forgetfulDisk) arm(format string, words ...any) (int, error) {
	answer, err := d.tell(fmt.Sprintf(format, words...))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(answer))
}

// disarm makes the disk whole again, and returns how often each kind of fault was injected since the last time.
func (d *forgetfulDisk) disarm() (counts map[string]int, err error) {
	if _, err := d.tell("clear"); err != nil {
		return nil, err
	}
	total, err := d.injected()
	if err != nil {
		return nil, err
	}
	counts = map[string]int{}
	for kind, n := range total {
		if n > d.counted[kind] {
			counts[kind] = n - d.counted[kind]
		}
	}
	d.counted = total
	return counts, nil
}

// injected is how often each kind of fault was injected since the disk was mounted.
func (d *forgetfulDisk) injected() (map[string]int, error) {
	line, err := d.askLine("stats")
	if err != nil {
		return nil, err
	}
	var stats struct{ Injected map[string]int }
	return stats.Injected, json.Unmarshal([]byte(line), &stats)
}

// rules are the rules that are armed.
func (d *forgetfulDisk) rules() (rules []diskRule, err error) {
	line, err := d.askLine("rules")
	if err != nil {
		return nil, err
	}
	return rules, json.Unmarshal([]byte(line), &rules)
}

var errNotHit = errors.New("nothing has met the rule")

// hit waits until a rule has hit something.
func (d *forgetfulDisk) hit(number int, limit time.Duration) (diskRule, error) {
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		rules, err := d.rules()
		if err != nil {
			return diskRule{}, err
		}
		for _, r := range rules {
			if r.Number == number && r.Fired > 0 {
				return r, nil
			}
			if r.Number == number && time.Now().After(end) {
				return r, fmt.Errorf("%w %q within %v, of %d operations", errNotHit, r.Rule, limit, r.Seen)
			}
		}
	}
}
