package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/pulsemq/pulsemq/core"
	"github.com/pulsemq/pulsemq/netio"
	"github.com/pulsemq/pulsemq/segment/disk"
	"github.com/pulsemq/pulsemq/shard/reactor"
)

// windowShare is the part of memory.limit that all connections together may have
// unanswered; it is the ingest arenas' part too.
const windowShare = 8

// broker is the running process: the shards, the clients' listener, the
// operators' port.
type broker struct {
	config   *core.Config
	log      *slog.Logger
	clock    core.Clock
	share    descriptors
	folder   *disk.Folder
	progress *startProgress
	node     *reactor.Node
	server   *netio.Server
	admin    *netio.Admin
}

// run recovers the data folder, serves until ctx ends, and stops cleanly. An
// error means that it could not start, or had to end.
func run(ctx context.Context, cfg core.Config, log *slog.Logger) error {
	b := &broker{config: &cfg, log: log}
	// Payload memory lies outside of the Go heap; what it leaves of the limit is the heap's.
	debug.SetMemoryLimit(reactor.HeapBytes(&cfg))
	limit, err := descriptorLimit()
	if err != nil {
		return err
	}
	if b.share, err = shareDescriptors(limit, b.config); err != nil {
		return err
	}
	b.share.capConnections(b.config, log)
	folder, err := disk.Open(cfg.Storage.DataDir, cfg.Storage.Disk)
	if err != nil {
		return fmt.Errorf("open the data folder %s: %w", cfg.Storage.DataDir, err)
	}
	defer folder.Close()
	b.folder = folder
	if err := b.start(ctx); err != nil {
		stopped := errors.Is(err, reactor.ErrStopped)
		if stopped { // as it was told to
			err = nil
		}
		err = errors.Join(err, b.stop())
		if stopped && err == nil {
			log.Info("stopped while starting; the next start begins anew")
		}
		return err
	}
	select {
	case <-ctx.Done():
	case <-b.node.Failed():
	}
	began := time.Now()
	log.Info("stopping")
	if err := b.stop(); err != nil {
		return err
	}
	log.Info("stopped", "stop_ms", time.Since(began).Milliseconds())
	return nil
}

// start opens the operators' port first, so that a long recovery can be watched,
// and the clients' listener last. A start that takes long ends with ctx.
func (b *broker) start(ctx context.Context) error {
	began := time.Now()
	b.clock = core.NewSystemClock()
	shardCPUs, reactorCPUs := processors(&b.config.Broker)
	health := netio.NewHealth(b.alive)
	metrics := newMetricsPage()
	b.progress = newStartProgress(health, b.log)
	admin := netio.NewAdmin(netio.AdminOptions{Config: b.config.Admin, Metrics: metrics, Health: health, Log: b.log, Settings: b.config.List(nil)})
	if err := admin.Start(); err != nil {
		return err
	}
	b.admin = admin
	b.log.Info("starting", "admin", admin.Address().String(), "version", core.Version, "data_dir", b.config.Storage.DataDir)

	node, err := reactor.Start(reactor.Options{
		Config: b.config, Disks: reactor.NewFolderDisks(b.folder, b.log), Clock: b.clock, Log: b.log, CPUs: shardCPUs,
		Progress: b.progress.note, Stop: ctx.Done(), SegmentFiles: b.share.segmentFiles,
	})
	if err != nil {
		return err
	}
	b.node = node
	server, err := netio.NewServer(netio.ServerOptions{
		Config: b.config, Links: node.Links, Views: node.Views, Clock: b.clock, Log: b.log,
		WindowBudgetBytes: int64(b.config.Memory.Limit) / windowShare, CPUs: reactorCPUs,
	})
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	b.server = server
	metrics.show(b.metrics())
	b.progress.ready()
	b.log.Info("ready", append([]any{"address", addressOf(server.Addresses()), "admin", admin.Address().String(), "version", core.Version,
		"node", int(b.config.Broker.NodeID), "cluster", node.ClusterID, "data_dir", b.config.Storage.DataDir,
		"disk", b.folder.Choice().Driver.String(), "shards", b.config.Broker.Shards, "reactors", b.config.Broker.Reactors,
		"start_ms", time.Since(began).Milliseconds()}, b.progress.stageFields()...)...)
	return nil
}

// alive says why the process should be restarted; nil while it should not.
func (b *broker) alive() error {
	// The fields are set once, before progress tells that they are.
	if !b.progress.isReady() {
		return nil
	}
	return errors.Join(b.node.Err(), b.server.Alive())
}

func (b *broker) metrics() *netio.Metrics {
	var shards []netio.ShardSource
	for i := range b.config.Broker.Shards {
		shards = append(shards, shardSamples{node: b.node, shard: i, choice: b.folder.Choice(), clock: b.clock})
	}
	return netio.NewMetrics(netio.MetricsOptions{
		Server: b.server, Shards: shards, PerTopic: b.config.Metrics.PerTopic,
		Node: nodeSamples{config: b.config, node: b.node, files: b.folder.FS()},
	})
}

// stop answers what is under way, then syncs everything. It is also called when
// the start failed half way. A failed node answers nothing any more: it only ends.
func (b *broker) stop() error {
	began := time.Now()
	timeout := b.config.Broker.ShutdownTimeout
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	failed := b.node != nil && b.node.Err() != nil
	if failed {
		cancel()
	}
	if b.server != nil {
		if err := b.server.Shutdown(ctx); err != nil && !failed {
			b.log.Warn("connections were closed with requests under way", "error", err.Error())
		}
	}
	var err error
	if b.node != nil {
		// Syncing gets the time that is left, and a little when nothing is.
		err = b.node.Stop(max(timeout-time.Since(began), time.Second))
	}
	if b.admin != nil {
		last, end := context.WithTimeout(context.Background(), time.Second)
		defer end()
		if e := b.admin.Shutdown(last); e != nil {
			b.log.Debug("operators' requests were cut", "error", e.Error())
		}
	}
	return err
}

// addressOf is the first address, as a client on this machine writes it.
func addressOf(addresses []net.Addr) string {
	if len(addresses) == 0 {
		return ""
	}
	return addresses[0].String()
}
