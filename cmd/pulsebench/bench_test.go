package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pulsemq/pulsemq/cmd/pulsebench/internal/report"
	"github.com/pulsemq/pulsemq/tools/process"
)

// asProgram has a process that this test starts, which is this test again, be pulsebench.
const asProgram = "PULSEBENCH_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Setenv(asProgram, "1")
	os.Exit(m.Run())
}

func comparisonOf(t *testing.T, text string) (c report.Comparison) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

// empty fails when a command has left something in the folder.
func empty(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCeilingMeasuresTheMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the disk is measured on Linux only")
	}
	dir := t.TempDir()
	code, stdout, stderr := call(t, "ceiling", "--dir", dir, "--runs", "2", "--duration", "50ms", "--file-size", "16MiB", "--connections", "2", "--json", "-")
	if code != exitOK {
		if strings.Contains(stderr, "invalid argument") {
			t.Skip("this file system has no direct I/O")
		}
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	c := comparisonOf(t, stdout)
	var names []string
	for _, row := range c.Rows {
		names = append(names, row.Name)
		if f := row.Figures[0]; len(f.Values) != 2 || f.Median <= 0 {
			t.Errorf("%s: %+v", row.Name, f)
		}
	}
	for _, want := range []string{"echo", "write, O_DIRECT", "write+fdatasync, 4 KiB", "write+fdatasync, 1024 KiB", "read, O_DIRECT, 1024 KiB, 4"} {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, want) }) {
			t.Errorf("no row %q among %q", want, names)
		}
	}
	empty(t, dir)
}

func TestCompareIsAShareOfTheSameTurn(t *testing.T) {
	dir, b := t.TempDir(), startFake(t)
	args := []string{"compare", "--brokers", b.address(), "--dir", dir, "--runs", "3", "--duration", "200ms", "--warmup", "5ms",
		"--partitions", "3", "--durability", "sync", "--record-size", "64", "--batch-records", "10", "--connections", "2", "--json", "-"}
	code, stdout, stderr := call(t, args...)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	row := comparisonOf(t, stdout).Rows[0]
	ours, echo, share := row.Figure("broker"), row.Figure("echo ceiling"), row.Figure("of the echo ceiling")
	if ours == nil || echo == nil || share == nil || len(share.Values) != 3 {
		t.Fatalf("%+v", row)
	}
	for i := range share.Values {
		if ours.Values[i] <= 0 || echo.Values[i] <= 0 || share.Values[i] != ours.Values[i]/echo.Values[i] {
			t.Errorf("turn %d: %v of %v is %v", i, ours.Values[i], echo.Values[i], share.Values[i])
		}
	}
	if len(b.topics) != 0 {
		t.Errorf("%d topics are left on the broker", len(b.topics))
	}
	empty(t, dir)

	// A side that does not verify has no figures.
	b = startFake(t)
	b.lose = true
	args[2] = b.address()
	if code, stdout, stderr = call(t, args...); code != exitFailure || stdout != "" || !strings.Contains(stderr, "lost") {
		t.Errorf("a broker that loses: exit code %d, %s%s", code, stdout, stderr)
	}
	empty(t, dir)
}

func TestSweepFindsAKneeAndDrawsIt(t *testing.T) {
	b := startFake(t)
	picture := filepath.Join(t.TempDir(), "sweep.svg")
	// Whatever this machine is busy with, anything that goes through at all is good, up to the last step.
	code, stdout, stderr := call(t, "sweep", "--brokers", b.address(), "--partitions", "3", "--record-size", "64", "--batch-records", "10", "--connections", "2",
		"--from", "5000", "--steps", "3", "--step-duration", "300ms", "--scout-duration", "100ms", "--achieved", "0.01", "--p99-max", "1h", "--svg", picture, "--json", "-")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var sweep report.Sweep
	if err := json.Unmarshal([]byte(stdout), &sweep); err != nil {
		t.Fatal(err)
	}
	if sweep.Knee != 20_000 || len(sweep.Steps) != 4 || sweep.Steps[1].Offered != 10_000 || sweep.Steps[2].Seconds != 0.1 || sweep.Steps[3].Seconds != 0.3 || sweep.Steps[1].Result.Records == 0 || !sweep.Steps[1].Result.Verified.Clean() {
		t.Errorf("%+v", sweep)
	}
	file, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := xml.NewDecoder(file)
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(stderr, "knee: 20,000 records/s") {
		t.Errorf("it says %s", stderr)
	}
	// Nothing is good when nothing may take any time.
	code, _, stderr = call(t, "sweep", "--brokers", b.address(), "--batch-records", "10", "--from", "5000", "--steps", "2", "--step-duration", "20ms", "--p99-max", "1ns")
	if code != exitFailure || !strings.Contains(stderr, "none of") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if len(b.topics) != 0 {
		t.Errorf("%d topics are left on the broker", len(b.topics))
	}
}

// Every row of the table with a real broker, with as little work as it has a meaning with. Rows that differ from another
// one in an argument alone are left out: each takes a broker of its own.
func TestEveryRowMeasures(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes and disks are measured on Linux only")
	}
	programs := t.TempDir()
	if err := process.Build(programs, "pulsemq"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(programs, "pulsemq")
	dir, out := t.TempDir(), t.TempDir()
	rows := slices.DeleteFunc(rowNames(), func(name string) bool {
		return slices.Contains([]string{"batch-none", "batch-batch", "single-sync"}, name)
	})
	code, stdout, stderr := call(t, "table", "--program", program, "--dir", dir, "--out", out, "--runs", "1", "--duration", "200ms", "--warmup", "50ms",
		"--rows", strings.Join(rows, ","), "--fetch-size", "2MiB", "--tail-size", "2MiB", "--restart-size", "1MiB", "--restart-partitions", "5", "--restart-journal", "500", "--idle-partitions", "10",
		"--group-members", "4", "--group-partitions", "10", "--group-lives", "100",
		"--file-size", "16MiB", "--step-duration", "200ms", "--settle", "10ms", "--from", "100", "--p99-max", "1h", "--achieved", "0.001", "--steps", "2", "--scout-duration", "0s")
	if code != exitOK {
		if strings.Contains(stderr, "direct I/O: invalid argument") {
			t.Skip("this file system has no direct I/O")
		}
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	text, err := os.ReadFile(filepath.Join(out, "table.json"))
	if err != nil {
		t.Fatal(err)
	}
	c := comparisonOf(t, string(text))
	if c.Environment.Broker.Settings["broker.shards"] == "" || c.Environment.Broker.Settings["storage.data-dir"] != "" {
		t.Errorf("the broker's settings are %v", c.Environment.Broker.Settings)
	}
	for i, name := range rows {
		if i >= len(c.Rows) || c.Rows[i].Name != name {
			t.Fatalf("row %d is not %s: %s", i, name, stdout)
		}
		row := &c.Rows[i]
		t.Logf("%s took %.1f s", name, row.Seconds)
		floors := 0
		for _, f := range row.Figures {
			if len(f.Values) == 0 {
				t.Errorf("%s: nothing measured for %q", name, f.What)
			}
			if f.Floor != nil {
				floors++
			}
		}
		if row.Skipped != "" || floors == 0 || len(row.Commands) == 0 {
			t.Errorf("%+v", row)
		}
	}
	host, _ := os.Hostname()
	for _, name := range []string{"table.md", "table.json", "shares.svg", "open-loop.svg", "open-loop.json"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		// Pages are kept where others read them.
		for _, secret := range []string{dir, out, filepath.Dir(program), host, "127.0.0.1"} {
			if secret != "" && strings.Contains(string(text), secret) {
				t.Errorf("%s names this machine's %s", name, secret)
			}
		}
	}
	empty(t, dir)
}

func TestBenchRefusesWhatCannotBe(t *testing.T) {
	b := startFake(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"compare", "--program", "x", "--brokers", b.address()}, "--program"},
		{[]string{"compare", "--runs", "0", "--dir", "/none", "--duration", "0s"}, "--dir /none"},
		{[]string{"compare", "--brokers", b.address(), "--record-size", "8"}, "--record-size"},
		{[]string{"compare", "--brokers", b.address(), "--rate", "-1"}, "--rate"},
		{[]string{"compare"}, "--program"},
		{[]string{"table", "--rows", "none", "--brokers", b.address()}, "batch-sync"},
		{[]string{"table", "--fetch-size", "x", "--brokers", b.address()}, "--fetch-size"},
		{[]string{"ceiling", "--file-size", "1KiB"}, "--file-size"},
		{[]string{"sweep", "--from", "0"}, "--from"},
		{[]string{"sweep", "--p99-max", "0s"}, "--p99-max"},
		{[]string{"echo", "--loops", "0"}, "--loops"},
	} {
		if code, stdout, stderr := call(t, c.args...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, it says %s%s", c.args, code, stdout, stderr)
		}
	}
}
