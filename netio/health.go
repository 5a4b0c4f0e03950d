package netio

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// Progress is how far the start has come.
type Progress struct {
	Ready           bool   `json:"ready"`
	Stage           string `json:"stage"` // for people: "starting", "journal", "metadata", "partitions", "listening", "ready"
	PartitionsDone  int    `json:"partitions_done"`
	PartitionsTotal int    `json:"partitions_total"`
}

// Health answers whether the broker lives and whether it serves.
//
// The two differ at the start: a broker that recovers a large data folder lives,
// and killing it would only begin the recovery anew.
type Health struct {
	progress atomic.Pointer[Progress]
	checks   []func() error
}

// NewHealth returns a Health that is not ready. Checks say why the process should
// be restarted, nil while it should not.
func NewHealth(checks ...func() error) *Health {
	h := &Health{checks: checks}
	h.SetProgress(Progress{Stage: "starting"})
	return h
}

// SetProgress may be called from any goroutine. Ready is final: what a thread tells
// of its start may come after the broker has told that it serves.
func (h *Health) SetProgress(p Progress) {
	for {
		last := h.progress.Load()
		if last != nil && last.Ready && !p.Ready || h.progress.CompareAndSwap(last, &p) {
			return
		}
	}
}

// Progress is the newest.
func (h *Health) Progress() Progress { return *h.progress.Load() }

func (h *Health) serveAlive(w http.ResponseWriter, _ *http.Request) {
	var problems []error
	for _, check := range h.checks {
		if err := check(); err != nil {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"alive": false, "reason": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"alive": true})
}

func (h *Health) serveReady(w http.ResponseWriter, _ *http.Request) {
	p := h.Progress()
	status := http.StatusOK
	if !p.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, p)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}

// standstillMax is how long a reactor may go without a turn: it has ten a second,
// or one while there is no connection.
const standstillMax = 15 * time.Second

// Alive says whether every reactor takes its turns. It is a check for NewHealth.
func (s *Server) Alive() error {
	if !s.started.Load() {
		return nil
	}
	now := time.Now().UnixNano()
	for _, l := range s.loops {
		if age := time.Duration(now - l.turned.Load()); age > standstillMax {
			return fmt.Errorf("reactor %d has not taken a turn for %v", l.reactor.index, age.Round(time.Second))
		}
	}
	return nil
}
