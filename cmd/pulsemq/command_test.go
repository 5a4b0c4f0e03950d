package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pulsemq/pulsemq/core"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// The scripts are about the command line; the broker behind it has its own tests.
	testscript.Main(m, map[string]func(){"pulsemq": func() {
		os.Exit(execute(newCommand(func(context.Context, core.Config, *slog.Logger) error {
			return errors.New("no broker in this test")
		}), os.Args[1:]))
	}})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"code": codeCommand},
	})
}

// codeCommand is `code N program args...`: the program must exit with N exactly.
func codeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program args...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s exited with %d, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// serveWith starts the root command around run and returns the exit code and the log.
func serveWith(t *testing.T, run runner, args ...string) (code int, lines []map[string]any) {
	t.Helper()
	var stderr bytes.Buffer
	command := newCommand(run)
	command.SetErr(&stderr)
	command.SetContext(context.Background())
	code = execute(command, args)
	for line := range strings.Lines(stderr.String()) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("a log line is not JSON: %q", line)
		}
		lines = append(lines, object)
	}
	return code, lines
}

func TestServeStopsCleanlyOnSIGTERM(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		code, lines := serveWith(t, func(ctx context.Context, cfg core.Config, log *slog.Logger) error {
			if cfg.Network.Port != 0 || cfg.Storage.DataDir != "d" {
				t.Errorf("the configuration did not arrive: %+v", cfg.Network)
			}
			log.Debug("below the level")
			log.Info("ready")
			if err := syscall.Kill(os.Getpid(), signal); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}, "--listen", "127.0.0.1:0", "--data-dir", "d")
		if code != exitOK || len(lines) != 1 || lines[0]["msg"] != "ready" {
			t.Errorf("%v: exit code %d, log %v", signal, code, lines)
		}
	}
}

func TestServeReportsFailure(t *testing.T) {
	code, lines := serveWith(t, func(context.Context, core.Config, *slog.Logger) error {
		return errors.New("the data folder is in use\nby another broker")
	}, "--set", "log.level=error")
	if code != exitFailure || len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["error"] != "the data folder is in use\nby another broker" {
		t.Errorf("exit code %d, log %v", code, lines)
	}
}

func TestServeReportsEveryConfigurationFault(t *testing.T) {
	code, lines := serveWith(t, func(context.Context, core.Config, *slog.Logger) error {
		t.Error("the broker was started with a wrong configuration")
		return nil
	}, "--set", "network.port=x", "--set", "network.hots=y")
	if code != exitUsage || len(lines) != 2 {
		t.Fatalf("exit code %d, log %v", code, lines)
	}
	if lines[0]["key"] != "network.port" || lines[0]["value"] != "x" || lines[0]["source"] != "--set" ||
		!strings.Contains(lines[1]["problem"].(string), "network.host") {
		t.Errorf("log %v", lines)
	}
}
