package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/pulsemq/pulsemq/tools/process"
)

// readyWait bounds the wait for a broker to serve.
const readyWait = 30 * time.Second

// broker is the demo's broker: a process with ports of its own. In a group of its own it does not get the terminal's
// interrupt: the demo stops it, once, when the load has ended.
type broker struct {
	*process.Process
	data string
}

// startBroker returns once the broker serves. When it does not, nothing of it is left running.
func startBroker(ctx context.Context, program, folder string) (*broker, error) {
	b := &broker{data: filepath.Join(folder, "data")}
	var err error
	b.Process, err = process.Launch(program, filepath.Join(folder, "broker.log"), "--data-dir", b.data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	calledOff := context.AfterFunc(ctx, func() { ended <- b.Terminate() })
	err = b.Ready(readyWait)
	if !calledOff() { // it was called off, and the broker is being stopped
		return nil, errors.Join(errors.New("called off"), <-ended)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
