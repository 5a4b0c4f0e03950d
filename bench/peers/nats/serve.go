package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	startWait = 30 * time.Second

	// Names of sync_interval.
	SyncAlways  = "always"
	SyncDefault = "default"
)

// Serve runs a server with JetStream in a folder until ctx ends. It says in one line of JSON where it listens. The
// settings go through a file, as those of any server do, so that everything that is not named is its own default.
func Serve(ctx context.Context, log io.Writer, folder, syncInterval string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	setting := ""
	switch syncInterval {
	case SyncAlways:
		setting = "  sync_interval: always\n"
	case SyncDefault:
	default:
		return fmt.Errorf("sync interval %q: allowed are %s and %s", syncInterval, SyncAlways, SyncDefault)
	}
	file := filepath.Join(folder, "server.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream {\n  store_dir: %q\n%s}\n", filepath.Join(folder, "store"), setting)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		return err
	}
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		return err
	}
	options.NoSigs, options.NoLog = true, true
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(startWait) {
		return errors.New("the server does not take connections")
	}
	line, err := json.Marshal(map[string]string{"msg": "ready", "address": s.Addr().String(), "version": server.VERSION})
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "%s\n", line)
	<-ctx.Done()
	return nil
}
