// Pulsebench measures a PulseMQ broker: how much it takes, how long that takes, and whether everything that it
// acknowledged is there.
//
// It exits with 0 when all went well, with 1 when something failed or a record is lost, duplicated or out of order, and
// with 2 when it was called wrongly.
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
	os.Exit(execute(ctx, streams{out: os.Stdout, err: os.Stderr}, os.Args[1:]))
}
