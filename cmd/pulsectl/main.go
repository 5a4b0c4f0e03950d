// Pulsectl is the command line of PulseMQ: topics, messages in and out, and a
// look into data folders.
//
// It exits with 0 when all went well, with 1 when something failed, and with 2
// when it was called wrongly.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Args[1:]))
}
