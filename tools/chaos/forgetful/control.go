//go:build linux

package main

// The control socket: one command a line, one answer a line.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

func jsonLine(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "err " + err.Error()
	}
	return string(b)
}

func (f *FS) command(line string) string {
	w := strings.Fields(line)
	if len(w) == 0 {
		return "err empty command"
	}
	switch w[0] {
	case "cut":
		torn, seed := f.torn, f.tornSeed
		if torn { // each cut of one run tears differently, and the run repeats exactly
			seed += f.st.Cuts.Load()
		}
		if len(w) == 2 && w[1] == "clean" {
			torn, seed = false, 0
		} else if len(w) == 3 && w[1] == "--torn" {
			n, err := strconv.ParseInt(w[2], 10, 64)
			if err != nil {
				return "err bad seed"
			}
			torn, seed = true, n
		} else if len(w) > 1 {
			return "err usage: cut [clean | --torn SEED]"
		}
		r := f.cut(torn, seed)
		if r.ErrorMessage != "" {
			return "err " + jsonLine(r)
		}
		return "ok " + jsonLine(r)
	case "restore":
		if err := f.restore(); err != nil {
			return "err " + err.Error()
		}
		return "ok"
	case "sync":
		f.big.Lock()
		defer f.big.Unlock()
		if f.isCut {
			return "err cut"
		}
		if err := f.syncAll(); err != nil {
			return "err " + err.Error()
		}
		return "ok"
	case "real-sync":
		if len(w) != 2 || w[1] != "on" && w[1] != "off" {
			return "err usage: real-sync on|off"
		}
		f.realSync.Store(w[1] == "on")
		return "ok"
	case "stats":
		return jsonLine(f.stats())
	case "dirty":
		return jsonLine(f.dirtyList())
	case "rules":
		return jsonLine(f.ruleReports())
	case "rot":
		if len(w) < 3 {
			return "err usage: rot COUNT SEED [PATH]"
		}
		count, err := strconv.Atoi(w[1])
		if err != nil {
			return "err bad count"
		}
		seed, err := strconv.ParseUint(w[2], 10, 64)
		if err != nil {
			return "err bad seed"
		}
		places, err := f.rot(count, seed, strings.Split(strings.Join(w[3:], " "), "*"))
		if err != nil {
			return "err " + err.Error()
		}
		return "ok " + jsonLine(places)
	case "fail", "stall", "flip", "short", "power":
		r, err := parseRule(w)
		if err != nil {
			return "err " + err.Error()
		}
		number, err := f.arm(r)
		if err != nil {
			return "err " + err.Error()
		}
		return fmt.Sprintf("ok %d", number)
	case "clear":
		number := int64(0)
		if len(w) > 1 {
			n, err := strconv.ParseInt(w[1], 10, 64)
			if err != nil || n < 1 || len(w) > 2 {
				return "err usage: clear [NUMBER]"
			}
			number = n
		}
		if err := f.disarm(number); err != nil {
			return "err " + err.Error()
		}
		return "ok"
	}
	return "err unknown command; cut, restore, sync, stats, dirty, fail, stall, flip, short, power, rot, rules, clear"
}

func (f *FS) serveCtl(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			s := bufio.NewScanner(c)
			for s.Scan() {
				if _, err := fmt.Fprintln(c, f.command(s.Text())); err != nil {
					return
				}
			}
		}()
	}
}
