package host

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestUsageOfAProcess(t *testing.T) {
	u, err := parseStat([]byte("42 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 100 123456 1000 18446744073709551615 1\n"))
	if err != nil || u.Processor != 3*time.Second || u.Resident != 1000*int64(os.Getpagesize()) {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := parseStat([]byte("42 (x) S 1")); err == nil {
		t.Error("half a line is a usage")
	}
	if u, err := UsageOf(os.Getpid()); err != nil || u.Resident < 1<<20 {
		t.Errorf("this process takes %+v, %v", u, err)
	}
	if _, err := UsageOf(-1); err == nil {
		t.Error("no process takes something")
	}
}

func TestSettingsOfABroker(t *testing.T) {
	answers := map[string]string{"/config": `{"broker.shards":"2"}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers[r.URL.Path] == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answers[r.URL.Path])
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	settings, err := ReadSettings(t.Context(), address)
	if err != nil || settings["broker.shards"] != "2" {
		t.Errorf("%v, %v", settings, err)
	}
	delete(answers, "/config")
	if _, err := ReadSettings(t.Context(), address); err == nil {
		t.Error("a broker that does not tell has settings")
	}
}

func TestPageIsSummedByName(t *testing.T) {
	page, err := parsePage(strings.NewReader("# HELP a text\n# TYPE a counter\na{shard=\"0\"} 1.5\na{shard=\"1 2\"} 2\nprocess_cpu_seconds_total 1.25\nprocess_resident_memory_bytes 4096\n"))
	if err != nil || page["a"] != 3.5 || page.Usage() != (Usage{Processor: 1250 * time.Millisecond, Resident: 4096}) {
		t.Errorf("%v, %v", page, err)
	}
	if _, err := parsePage(strings.NewReader("a x\n")); err == nil {
		t.Error("a page of words is read")
	}
}

func TestRoomOfAFolder(t *testing.T) {
	if n, err := FreeBytes(t.TempDir()); err != nil || n == 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := FreeBytes("/none"); err == nil {
		t.Error("a folder that is not there has room")
	}
}

func TestStolenIsTheEighth(t *testing.T) {
	if d, err := parseStolen([]byte("cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n")); err != nil || d != 2500*time.Millisecond {
		t.Errorf("%v, %v", d, err)
	}
	for _, text := range []string{"", "cpu 1 2 3\n", "intr 1 2 3 4 5 6 7 8 9 10\n"} {
		if _, err := parseStolen([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	if d, err := Stolen(); err != nil || d < 0 {
		t.Errorf("%v, %v", d, err)
	}
}
