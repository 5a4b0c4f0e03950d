package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ticksPerSecond is the unit of times in /proc on every architecture that Go runs on.
const ticksPerSecond = 100

// Where fields lie behind the name of the program, which may hold anything, in /proc/PID/stat.
const (
	statUserAt   = 11
	statSystemAt = 12
	statRSSAt    = 21
)

// UsageOf asks the kernel about a process.
func UsageOf(pid int) (Usage, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	return parseStat(text)
}

func parseStat(text []byte) (Usage, error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= statRSSAt {
		return Usage{}, fmt.Errorf("%q is no line of /proc/PID/stat", text)
	}
	var numbers [3]int64
	for i, at := range []int{statUserAt, statSystemAt, statRSSAt} {
		n, err := strconv.ParseInt(string(fields[at]), 10, 64)
		if err != nil {
			return Usage{}, err
		}
		numbers[i] = n
	}
	return Usage{
		Processor: time.Duration(numbers[0]+numbers[1]) * (time.Second / ticksPerSecond),
		Resident:  numbers[2] * int64(os.Getpagesize()),
	}, nil
}
