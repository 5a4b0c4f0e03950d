package config

import (
	"net"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// Sources is where the configuration of one broker is written.
type Sources struct {
	Environ []string // as os.Environ gives it
	Sets    []string // key=value of each --set, in order

	// The other flags; nil when not given. An empty text was given, often by a
	// script whose variable is not set, and is a fault.
	File    *string // path of the YAML file
	DataDir *string
	Listen  *string
	Admin   *string
}

// Loaded is a valid configuration and what it was made from.
type Loaded struct {
	Config   core.Config
	Settings []core.Setting // in rising precedence
}

// List describes every key with its effective value and source.
func (l *Loaded) List() []core.ConfigValue { return l.Config.List(l.Settings) }

// Load reads all sources and reports every fault in them at once.
func Load(s Sources, machine core.Machine) (*Loaded, core.Faults) {
	var l Loaded
	var faults core.Faults
	gather := func(settings []core.Setting, wrong core.Faults) {
		l.Settings = append(l.Settings, settings...)
		faults = append(faults, wrong...)
	}
	if s.File != nil {
		gather(readFile(*s.File))
	}
	gather(readEnviron(s.Environ), nil)
	gather(readSets(s.Sets))
	if s.DataDir != nil {
		gather([]core.Setting{{Key: "storage.data-dir", Value: *s.DataDir, Source: "--data-dir"}}, nil)
	}
	gather(readAddress("--listen", s.Listen, "network.host", "network.port"))
	gather(readAddress("--admin", s.Admin, "admin.host", "admin.port"))

	var wrong core.Faults
	if l.Config, wrong = core.ParseConfig(l.Settings, machine); wrong != nil {
		faults = append(faults, wrong...)
	}
	if faults != nil {
		return nil, faults
	}
	return &l, nil
}

// readSets splits the key=value of each --set at its first equals sign.
func readSets(sets []string) (settings []core.Setting, faults core.Faults) {
	for _, set := range sets {
		key, value, found := strings.Cut(set, "=")
		if !found {
			faults = append(faults, core.Fault{Key: set, Source: "--set", Problem: "wants key=value"})
			continue
		}
		settings = append(settings, core.Setting{Key: strings.TrimSpace(key), Value: value, Source: "--set"})
	}
	return settings, faults
}

// readAddress splits host:port; an IPv6 address stands in brackets.
func readAddress(flag string, address *string, hostKey, portKey string) ([]core.Setting, core.Faults) {
	if address == nil {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(*address)
	if err != nil || host == "" {
		return nil, core.Faults{{Key: flag, Value: *address,
			Problem: "wants HOST:PORT, such as 127.0.0.1:9090 or [::1]:9090; all addresses are 0.0.0.0:9090 or [::]:9090"}}
	}
	return []core.Setting{{Key: hostKey, Value: host, Source: flag}, {Key: portKey, Value: port, Source: flag}}, nil
}
