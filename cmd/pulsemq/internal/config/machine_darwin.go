package config

import (
	"fmt"

	"github.com/pulsemq/pulsemq/core"
	"golang.org/x/sys/unix"
)

func memoryBytes() (core.Size, error) {
	bytes, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return core.Size(bytes), nil
}
