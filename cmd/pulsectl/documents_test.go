package main

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The commands that README.md and docs show are run, each document's in their
// order against a broker of its own, so that they cannot drift from what the
// programs do. Shown are indented lines, and words in backquotes that begin with a
// program of bin/.

const repository = "../.."

// placeholders stand in documents for what a reader puts there.
var placeholders = map[string]string{
	"NAME":   "orders",
	"OFFSET": "1",
	"DIR":    "data",
	"FILE":   "data/layout-1/shard-00/journal-0001.jnl",
}

var (
	shownLine     = regexp.MustCompile(`^ {4,}(\S.*)$`)
	shownWord     = regexp.MustCompile("`(bin/pulse(?:mq|ctl|bench) [^`]+)`")
	shownProgram  = regexp.MustCompile(`^(echo|printf|(bin/)?pulse(ctl|mq|bench))( |$)`)
	placeholder   = regexp.MustCompile(`\b[A-Z]{3,}\b`)
	brokerItself  = regexp.MustCompile(`^(bin/)?pulsemq( --|$)`)
	programInPath = regexp.MustCompile(`(^|\| )(pulsectl|pulsemq|pulsebench)\b`)
)

// shownCommands are the commands of a document, in their order.
func shownCommands(text string) []string {
	var commands []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if match := shownLine.FindStringSubmatch(line); match != nil && shownProgram.MatchString(match[1]) {
			commands = append(commands, match[1])
			continue
		}
		for _, match := range shownWord.FindAllStringSubmatch(line, -1) {
			commands = append(commands, match[1])
		}
	}
	return commands
}

func TestShownCommandsWork(t *testing.T) {
	programs := map[string]string{"pulsemq": buildBroker(t), "pulsebench": buildProgram(t, "pulsebench")}
	documents := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			name, _ := filepath.Rel(repository, path)
			documents = append(documents, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, document := range documents {
		text, err := os.ReadFile(filepath.Join(repository, document))
		if err != nil {
			t.Fatal(err)
		}
		commands := shownCommands(string(text))
		total += len(commands)
		if len(commands) > 0 {
			t.Run(document, func(t *testing.T) { newShownReader(t, programs).runAll(commands) })
		}
	}
	if total < 10 {
		t.Errorf("only %d commands are found in the documents", total)
	}
}

// shownReader types what a document shows.
type shownReader struct {
	*testing.T
	folder string
	broker *scriptBroker
	env    []string
}

func newShownReader(t *testing.T, programs map[string]string) *shownReader {
	r := &shownReader{T: t, folder: t.TempDir()}
	r.broker = &scriptBroker{program: programs["pulsemq"], data: filepath.Join(r.folder, "data")}
	t.Cleanup(r.broker.kill)
	if err := os.Mkdir(filepath.Join(r.folder, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	ctl, err := exec.LookPath("pulsectl") // this test, as testscript.Main has put it there
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"pulsectl": ctl, "pulsemq": programs["pulsemq"], "pulsebench": programs["pulsebench"]} {
		if err := os.Symlink(target, filepath.Join(r.folder, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker said:\n%s", r.broker.said())
		}
	})
	r.makeTopic()
	return r
}

// makeTopic makes what a page of operations may take for granted: a topic with messages.
func (r *shownReader) makeTopic() {
	r.run("bin/pulsectl topic create orders --partitions 1 && printf 'a\\nb\\nc\\n' | bin/pulsectl produce orders")
}

func (r *shownReader) start() {
	if err := r.broker.start(nil); err != nil {
		r.Fatal(err)
	}
	r.env = append(os.Environ(), brokersEnv+"="+r.broker.process.Address)
}

func (r *shownReader) runAll(commands []string) {
	// A document that creates the topic itself starts without it.
	for _, command := range commands {
		if strings.Contains(command, "topic create orders") {
			r.run("bin/pulsectl topic delete orders")
			break
		}
	}
	for _, command := range commands {
		command = placeholder.ReplaceAllStringFunc(command, func(word string) string {
			if value := placeholders[word]; value != "" {
				return value
			}
			return word
		})
		command = programInPath.ReplaceAllString(command, "${1}bin/$2")
		switch {
		case brokerItself.MatchString(command): // it would serve for ever
			r.run(strings.Replace(command, "pulsemq", "pulsemq config check", 1))
		case strings.HasPrefix(command, "bin/pulsebench") && !strings.Contains(command, "--help"): // less of it shows as well that it works
			r.run(shortened(command))
		case strings.Contains(command, "--follow"):
			r.follow(command)
		case strings.Contains(command, "debug verify"): // documents say to stop it first
			if err := r.broker.stop(); err != nil {
				r.Fatal(err)
			}
			r.run(command)
			r.start()
		case strings.Contains(command, "topic delete"):
			r.run(command)
			r.makeTopic()
		default:
			r.run(command)
		}
	}
}

var benchLength = regexp.MustCompile(` --(records|duration|rate|runs|rows|step-duration) \S+`)

// benchShort makes each command of pulsebench put less load and end soon. A sweep is content with anything, because how
// quick the machine is does not matter here.
var benchShort = map[string]string{
	"produce": " --duration 200ms",
	"e2e":     " --duration 200ms --rate 1000",
	"consume": " --records 2000",
	"sweep":   " --from 1000 --steps 2 --step-duration 50ms --achieved 0.001 --p99-max 10m",
	"ceiling": " --runs 1 --duration 20ms --file-size 16MiB",
	"compare": " --runs 1 --duration 50ms --warmup 0s",
	"table":   " --runs 1 --duration 50ms --warmup 0s --file-size 16MiB --rows one-sync",
}

// shortened is a command of pulsebench with less to do, against the reader's broker.
func shortened(command string) string {
	name := strings.Fields(command)[1]
	short := benchLength.ReplaceAllString(command, "") + benchShort[name]
	if name == "ceiling" {
		return short
	}
	return short + " --brokers $" + brokersEnv
}

func (r *shownReader) command(line string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = r.folder, r.env
	return cmd
}

func (r *shownReader) run(line string) {
	out, err := r.command(line).CombinedOutput()
	if err != nil {
		r.Errorf("%s\n%s%v", line, out, err)
		return
	}
	r.Logf("%s\n%s", line, out)
}

// follow interrupts a command that waits for more once it has printed a line.
func (r *shownReader) follow(line string) {
	cmd := r.command("exec " + line)
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	first, _ := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		r.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || first == "" {
		r.Errorf("%s\nprinted %q and ended with %v", line, first, err)
	}
}
