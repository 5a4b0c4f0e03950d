//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "forgetful needs Linux: it is a FUSE file system")
	os.Exit(1)
}
