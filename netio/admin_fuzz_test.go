package netio

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pulsemq/pulsemq/core"
)

// FuzzAdmin sends any bytes as an HTTP request to the operators' port: whatever net/http
// makes of them is answered, and only what is served is answered with 200.
func FuzzAdmin(f *testing.F) {
	served := map[string]bool{"/": true, "/healthz": true, "/readyz": true, "/version": true, "/metrics": true}
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /metrics?x=%00&y=../.. HTTP/1.0\r\n\r\n", "POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\nx",
		"GET //metrics HTTP/1.1\r\nHost: \r\n\r\n", "GET /..%2f..%2fetc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", "GET /debug/pprof/profile?seconds=1000000 HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n"} {
		f.Add([]byte(request))
	}
	a := NewAdmin(AdminOptions{Config: core.AdminConfig{Host: "127.0.0.1"}, Health: &Health{}, Log: slog.New(slog.DiscardHandler),
		Metrics: NewMetrics(MetricsOptions{Node: fixedNode{}, Shards: []ShardSource{fixedShard{&ShardSample{}}}})})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		a.server.Handler.ServeHTTP(w, r)
		if w.Code == http.StatusOK && (!served[r.URL.Path] || r.Method != http.MethodGet && r.Method != http.MethodHead) {
			t.Fatalf("%s %q is answered with 200", r.Method, r.URL.Path)
		}
		if _, err := io.Copy(io.Discard, w.Result().Body); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzMetricsPage writes the page for a topic of any name.
func FuzzMetricsPage(f *testing.F) {
	for _, name := range []string{"a", "", "\x00", "\n# TYPE a counter", "\"} 1\nx 2", `\`, "\xff", "\u202e"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		m := NewMetrics(MetricsOptions{PerTopic: true, Node: fixedNode{}, Shards: []ShardSource{
			fixedShard{&ShardSample{Partitions: samplePartitions(1, 2, func(int) string { return name })}}}})
		var b bytes.Buffer
		if err := m.Write(&b); err != nil {
			t.Fatal(err)
		}
		if n := parsePage(t, b.Bytes())["pulsemq_partitions"]; n != 2 {
			t.Fatalf("%v partitions are shown", n)
		}
	})
}
