package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// A member of a group whose topic does not exist says so once, and waits.
func TestConsumeGroupSaysThatItsTopicIsAbsent(t *testing.T) {
	b := &lagBroker{t, scriptBroker{program: buildBroker(t), data: filepath.Join(t.TempDir(), "data")}}
	t.Cleanup(b.kill)
	if err := b.start(nil); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-g", "stream"}, {"-g", "queue", "--queue"}} {
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		code := make(chan int, 1)
		go func() {
			code <- execute(ctx, streams{strings.NewReader(""), io.Discard, in}, append([]string{"--brokers", b.process.Address, "consume", "nosuch"}, args...))
			in.Close()
		}()
		said := bufio.NewReader(out)
		line, err := said.ReadString('\n')
		if want := "pulsectl: topic \"nosuch\" does not exist; waiting for it\n"; err != nil || line != want {
			t.Errorf("%q says %q (%v), want %q", args, line, err, want)
		}
		cancel()
		if rest, _ := io.ReadAll(said); len(rest) > 0 {
			t.Errorf("%q goes on with %q", args, rest)
		}
		if n := <-code; n != exitOK {
			t.Errorf("%q exits with %d", args, n)
		}
	}
}
