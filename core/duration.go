package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// Day is 24 hours; configuration writes it as 1d.
	Day = 24 * time.Hour

	// DurationUnlimited is longer than anything that is compared with it. It is
	// spelled out as "unlimited"; zero never means it.
	DurationUnlimited time.Duration = math.MaxInt64
)

// durationUnits are the accepted units; the first that divides a duration writes it.
var durationUnits = [...]struct {
	name string
	unit time.Duration
}{
	{"d", Day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
	{"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond},
}

// ParseDuration reads whole numbers with units, one after the other: 5ms, 1h30m, 7d.
// The standard library's parser knows no days and allows fractions and signs.
func ParseDuration(text string) (time.Duration, error) {
	var sum time.Duration
	for rest := text; ; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		letters := len(rest[digits:]) - len(strings.TrimLeft(rest[digits:], "dhmsun"))
		unit := durationUnit(rest[digits : digits+letters])
		if digits == 0 || unit == 0 {
			return 0, fmt.Errorf("not a duration: wants whole numbers with a unit (ns, us, ms, s, m, h, d), such as 5ms, 1h30m or 7d")
		}
		number, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil || number > int64(DurationUnlimited-1-sum)/int64(unit) {
			return 0, fmt.Errorf("not a duration: longer than the 292 years that can be counted")
		}
		sum += time.Duration(number) * unit
		if rest = rest[digits+letters:]; rest == "" {
			return sum, nil
		}
	}
}

func durationUnit(name string) time.Duration {
	for _, u := range durationUnits {
		if u.name == name {
			return u.unit
		}
	}
	return 0
}

// FormatDuration writes a duration that is not negative in the largest unit that
// divides it, so that ParseDuration reads the same duration back.
func FormatDuration(d time.Duration) string {
	if d == DurationUnlimited {
		return "unlimited"
	}
	for _, u := range durationUnits {
		if d != 0 && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return "0s"
}
