package config

import (
	"os"
	"runtime"

	"github.com/pulsemq/pulsemq/core"
)

// Machine describes what the broker runs on. GOMAXPROCS follows the affinity mask
// and the control group's processor quota, so it is asked before it is changed.
func Machine() (core.Machine, error) {
	memory, err := memoryBytes()
	if err != nil {
		return core.Machine{}, err
	}
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "localhost"
	}
	return core.Machine{CPUs: runtime.GOMAXPROCS(0), MemoryBytes: memory, Hostname: hostname}, nil
}
