package conn

import (
	"strings"
	"testing"
	"time"
)

func TestParseAddresses(t *testing.T) {
	for list, want := range map[string]string{
		"mq://a:1,b:2":               "a:1 b:2",
		"MQ://a":                     "a:9090",
		"a:1, a:1 ,a:2":              "a:1 a:2",
		"[::1]:9091,[::1],::1":       "[::1]:9091 [::1]:9090",
		"fe80::1%eth0":               "[fe80::1%eth0]:9090",
		"127.0.0.1,mq.example.com:5": "127.0.0.1:9090 mq.example.com:5",
		"mq://h:9090/":               "h:9090",
	} {
		got, err := ParseAddresses(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v, want %s", list, got, err, want)
		}
	}
	for _, list := range []string{"", ",", "a,", "http://a", "a:", ":9090", "a:70000", "a:-1", "[::1", "::1]:5", "a/b:1", "user@h:1", "[]:1"} {
		if got, err := ParseAddresses(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
}

func TestBackoffIsBoundedAndJittered(t *testing.T) {
	b := Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}
	seen := map[time.Duration]bool{}
	for failures, most := range []time.Duration{10, 10, 20, 40, 80, 100, 100, 100} {
		most *= time.Millisecond
		for range 50 {
			d := b.After(failures)
			if d < most/2 || d > most {
				t.Fatalf("after %d failures: %v", failures, d)
			}
			seen[d] = true
		}
	}
	if b.After(1<<31) > b.Max || len(seen) < 100 {
		t.Errorf("%d different waits", len(seen))
	}
}
