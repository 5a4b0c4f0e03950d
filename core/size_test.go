package core

import (
	"math"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "512B": 512, "64KB": 64 * KiB, "64kib": 64 * KiB, "64K": 64 * KiB, "1GB": GiB, "1GiB": GiB,
		"16 MB": 16 * MiB, "2TB": 2 * TiB, "8388607TiB": 8388607 * TiB,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
		if again, err := ParseSize(want.String()); err != nil || again != want {
			t.Errorf("%v is written as %q and read as %v, %v", int64(want), want.String(), again, err)
		}
	}
	for _, text := range []string{"", "GB", "-1", "+1", "1.5GB", "1 2", "1XB", "1e3", "0x10", "1_000", "unlimited",
		"8388608TiB", "9223372036854775807", "99999999999999999999", " 1", "１"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "5ms": 5 * time.Millisecond, "1h": time.Hour, "7d": 7 * Day, "1h30m": 90 * time.Minute, "250us": 250 * time.Microsecond,
		"1d2h3m4s5ms6us7ns": 26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond + 6*time.Microsecond + 7,
		"106751d":           106751 * Day,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
		if again, err := ParseDuration(FormatDuration(want)); err != nil || again != want {
			t.Errorf("%v is written as %q and read as %v, %v", want, FormatDuration(want), again, err)
		}
	}
	for _, text := range []string{"", "5", "ms", "-1s", "+1s", "1.5h", "1h ", "1 h", "1x", "1hm", "106752d", "9223372036854775807ns",
		"9223372036854775806ns1ns", "99999999999999999999s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	if FormatDuration(math.MaxInt64) != "unlimited" {
		t.Error("the unlimited duration is not spelled out")
	}
}

func TestNearest(t *testing.T) {
	names := KeyNames()
	for given, want := range map[string]string{
		"network.prot": "network.port", "Network.Port": "network.port", "storage.segmentsize": "storage.segment-size",
		"durability.modus": "durability.mode", "broker.nodeid": "broker.node-id", "completely.else": "", "": "",
	} {
		if got := Nearest(given, names); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"kitten", "sitting", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
