package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/pulsemq/pulsemq/core"
)

// Timeouts of the admin port. A profile takes as long as it is asked to, which is
// why the time to write is long.
const (
	adminReadHeaderTime = 5 * time.Second
	adminReadTime       = 10 * time.Second
	adminWriteTime      = 2 * time.Minute
	adminIdleTime       = time.Minute
	adminHeaderBytesMax = 16 << 10
)

// Admin is the HTTP port for operators: metrics, health, profiles.
type Admin struct {
	log      *slog.Logger
	server   *http.Server
	listener net.Listener
	address  string // as configured
}

// MetricsPage writes the page in the Prometheus text format.
type MetricsPage interface {
	Write(io.Writer) error
}

// AdminOptions makes an Admin.
type AdminOptions struct {
	Config  core.AdminConfig
	Metrics MetricsPage
	Health  *Health
	Log     *slog.Logger

	// Settings is the configuration in effect, for whoever has to say what a broker ran with.
	Settings []core.ConfigValue
}

// NewAdmin prepares the port; Start opens it.
func NewAdmin(o AdminOptions) *Admin {
	admin := &o.Config
	a := &Admin{log: o.Log, address: net.JoinHostPort(admin.Host, strconv.Itoa(admin.Port))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", serveIndex)
	mux.HandleFunc("GET /healthz", o.Health.serveAlive)
	mux.HandleFunc("GET /readyz", o.Health.serveReady)
	mux.HandleFunc("GET /version", serveVersion)
	settings := make(map[string]string)
	for _, v := range o.Settings {
		settings[v.Name] = v.Value
	}
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, settings) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = o.Metrics.Write(w) // a scraper that is gone needs no page
	})
	if admin.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	a.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: adminReadHeaderTime,
		ReadTimeout:       adminReadTime,
		WriteTimeout:      adminWriteTime,
		IdleTimeout:       adminIdleTime,
		MaxHeaderBytes:    adminHeaderBytesMax,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return a
}

// Start opens the port and serves it.
func (a *Admin) Start() error {
	l, err := net.Listen("tcp", a.address)
	if err != nil {
		return fmt.Errorf("listen for operators on %s (admin.host, admin.port): %w", a.address, err)
	}
	a.listener = l
	go func() {
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the admin port has failed", "address", l.Addr().String(), "error", err)
		}
	}()
	return nil
}

// Address is where the port listens.
func (a *Admin) Address() net.Addr { return a.listener.Addr() }

// Shutdown ends it, waiting for requests under way until the context ends.
func (a *Admin) Shutdown(ctx context.Context) error {
	if err := a.server.Shutdown(ctx); err != nil {
		return errors.Join(err, a.server.Close())
	}
	return nil
}

func serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintf(w, "PulseMQ %s\n\n/metrics   for Prometheus\n/healthz   does it live\n/readyz    does it serve, and how far is its start\n/version   the build\n/config    the settings in effect\n/debug/pprof/   profiles, with admin.pprof\n", core.Version)
}

func serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": core.Version})
}
