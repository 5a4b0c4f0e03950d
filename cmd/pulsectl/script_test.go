package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pulsemq/pulsemq/tools/process"
)

// The scripts in testdata run pulsectl against a real broker: a process of its
// own with a data folder in the script's directory.
//
//	broker start [FLAG...]  start it on free ports and wait until it is ready;
//	                        sets PULSECTL_BROKERS and ADMIN
//	broker stop             SIGTERM; it has to exit with 0
//	broker kill             SIGKILL
//	broker pause, resume    SIGSTOP and SIGCONT
//	exits N PROGRAM ARG...  run pulsectl or pulsemq, which has to exit with N
//	within TIME N PROGRAM ARG...  the same, and it must not take longer
//	lines FILE COUNT        make a file of COUNT different lines
//	bytes FILE HEX          make a file of any bytes
//	same FILE FILE          both have the same lines, in any order
//	flip FILE TEXT          flip a bit of the only place in the file that holds the text; FILE may have *
//	logged COUNT PATTERN    so many lines of the running broker's log match; waits for the first
//	letters TOPIC FILE      write dead letters, a JSON object a line, as a broker does
//	page STATUS PATH        get a page of the operators' port, which has to have the status

func TestMain(m *testing.M) {
	testscript.Main(builtPrograms{m}, map[string]func(){"pulsectl": main})
}

func TestScripts(t *testing.T) {
	program := buildBroker(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			b := &scriptBroker{program: program, data: filepath.Join(env.WorkDir, "data")}
			env.Values[brokerKey{}] = b
			env.Defer(b.kill)
			return nil
		},
		Condition: func(condition string) (bool, error) {
			if condition != "ipv6" {
				return false, fmt.Errorf("unknown condition %q", condition)
			}
			l, err := net.Listen("tcp", "[::1]:0")
			if err != nil {
				return false, nil
			}
			return true, l.Close()
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"broker":  cmdBroker,
			"lines":   cmdLines,
			"bytes":   cmdBytes,
			"same":    cmdSame,
			"exits":   cmdExits,
			"within":  cmdWithin,
			"page":    cmdPage,
			"flip":    cmdFlip,
			"logged":  cmdLogged,
			"letters": cmdLetters,
		},
	})
}

// programs is a folder with pulsemq and pulsebench, built when the first test asks.
var programs struct {
	folder string
	build  func() error
}

// builtPrograms is a run of tests with a place for the programs that they need.
type builtPrograms struct{ *testing.M }

func (b builtPrograms) Run() int {
	folder, err := os.MkdirTemp("", "pulsectl-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	programs.folder, programs.build = folder, sync.OnceValue(func() error { return process.Build(folder, "pulsemq", "pulsebench") })
	return b.M.Run()
}

// buildBroker builds pulsemq once for all tests.
func buildBroker(t *testing.T) string { return buildProgram(t, "pulsemq") }

func buildProgram(t *testing.T, name string) string {
	t.Helper()
	if err := programs.build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(programs.folder, name)
}

type brokerKey struct{}

// scriptBroker is the broker of one script through all its lives.
type scriptBroker struct {
	program, data string
	process       *process.Process // nil while there is none
}

// log is the file that a broker's present life logs to.
func (b *scriptBroker) log() string { return b.data + ".log" }

// said is what the present life has logged so far.
func (b *scriptBroker) said() string {
	text, _ := os.ReadFile(b.log())
	_, text, _ = bytes.Cut(text, []byte("\n")) // the first line is of the launcher
	return string(text)
}

func (b *scriptBroker) start(flags []string) error {
	if err := os.Remove(b.log()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	args := append([]string{"--data-dir", b.data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", "storage.journal-size=16MiB",
		"--set", "storage.journal-file-size=4MiB", "--set", "storage.min-free=1MiB"}, flags...)
	var err error
	b.process, err = process.Start(b.program, b.log(), args...)
	return err
}

func (b *scriptBroker) stop() error {
	process := b.process
	b.process = nil
	return process.Terminate()
}

func (b *scriptBroker) kill() {
	if b.process != nil {
		b.process.Destroy()
		b.process = nil
	}
}

func cmdBroker(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: broker start|stop|kill|pause|resume")
	}
	b := ts.Value(brokerKey{}).(*scriptBroker)
	switch args[0] {
	case "start":
		err := b.start(args[1:])
		if neg != (err != nil) {
			ts.Fatalf("broker start: %v", err)
		}
		if err != nil {
			ts.Logf("%v", err)
			return
		}
		ts.Setenv(brokersEnv, b.process.Address)
		ts.Setenv("ADMIN", b.process.Admin)
	case "stop":
		ts.Check(b.stop())
	case "kill":
		b.kill()
	case "pause":
		ts.Check(b.process.Halt())
	case "resume":
		ts.Check(b.process.Resume())
	default:
		ts.Fatalf("usage: broker start|stop|kill|pause|resume")
	}
}

func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	most, err := time.ParseDuration(args[0])
	ts.Check(err)
	begun := time.Now()
	cmdExits(ts, neg, args[1:])
	if took := time.Since(begun); took > most {
		ts.Fatalf("it took %v, allowed are %v", took, most)
	}
}

func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	program := args[1]
	if program == "pulsemq" {
		program = ts.Value(brokerKey{}).(*scriptBroker).program
	}
	code := 0
	if err := ts.Exec(program, args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exits with %d, wants %s", code, args[0])
	}
}

func cmdLines(ts *testscript.TestScript, _ bool, args []string) {
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	for i := range count {
		fmt.Fprintf(&b, "message %d\n", i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}

func cmdBytes(ts *testscript.TestScript, _ bool, args []string) {
	b, err := hex.DecodeString(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	flipped := 0
	for _, name := range names {
		b, err := os.ReadFile(name)
		ts.Check(err)
		if at := bytes.Index(b, []byte(args[1])); at >= 0 {
			flipped++
			f, err := os.OpenFile(name, os.O_WRONLY, 0) // in place: a broker may have it open
			ts.Check(err)
			_, err = f.WriteAt([]byte{b[at] ^ 1}, int64(at))
			ts.Check(errors.Join(err, f.Close()))
		}
	}
	if flipped != 1 {
		ts.Fatalf("%q stands in %d of the files %s", args[1], flipped, args[0])
	}
}

func cmdLogged(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	pattern, err := regexp.Compile("(?m)^.*" + args[1])
	ts.Check(err)
	b := ts.Value(brokerKey{}).(*scriptBroker)
	count := 0
	for deadline := time.Now().Add(10 * time.Second); count == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		count = len(pattern.FindAllString(b.said(), -1))
	}
	if count != want {
		ts.Fatalf("%d lines match %s, wants %d:\n%s", count, args[1], want, b.said())
	}
}

func cmdPage(ts *testscript.TestScript, _ bool, args []string) {
	answer, err := http.Get("http://" + ts.Getenv("ADMIN") + args[1])
	ts.Check(err)
	defer answer.Body.Close()
	if strconv.Itoa(answer.StatusCode) != args[0] {
		ts.Fatalf("%s answers %s", args[1], answer.Status)
	}
	_, err = io.Copy(ts.Stdout(), answer.Body)
	ts.Check(err)
}

func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	count := map[string]int{}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		count[line]++
	}
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		count[line]--
	}
	for line, n := range count {
		if n != 0 && !neg {
			ts.Fatalf("%q stands %d times more in %s than in %s", line, n, args[0], args[1])
		}
	}
}
