// Pulsemq is the broker. Started without a command it serves until SIGTERM.
//
// It exits with 0 after a clean stop, with 1 when it failed, and with 2 when it was
// called or configured wrongly. Its log is JSON lines on standard error.
package main

import (
	"os"
)

func main() {
	os.Exit(execute(newCommand(run), os.Args[1:]))
}
