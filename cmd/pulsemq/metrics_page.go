package main

import (
	"io"
	"sync/atomic"

	"github.com/pulsemq/pulsemq/netio"
)

// metricsPage is the page that the operators' port serves: nearly empty during a
// long start, the whole one after it.
type metricsPage struct{ newest atomic.Pointer[netio.Metrics] }

func newMetricsPage() *metricsPage {
	p := &metricsPage{}
	p.show(netio.NewMetrics(netio.MetricsOptions{}))
	return p
}

func (p *metricsPage) show(m *netio.Metrics) { p.newest.Store(m) }

// Write writes the page.
func (p *metricsPage) Write(w io.Writer) error { return p.newest.Load().Write(w) }
