package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// stolenAt is where the first line of /proc/stat says what the host has taken, behind the word "cpu".
const stolenAt = 7

// Stolen is the processor time, of all processors since the machine started, in which something was to run here and the
// host ran something else.
func Stolen() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseStolen(text)
}

func parseStolen(text []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) <= stolenAt+1 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("%q is no beginning of /proc/stat", line)
	}
	ticks, err := strconv.ParseInt(string(fields[stolenAt+1]), 10, 64)
	return time.Duration(ticks) * (time.Second / ticksPerSecond), err
}
