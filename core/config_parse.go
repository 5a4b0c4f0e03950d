package core

// Setting is one key and its value as somebody wrote it, and where.
type Setting struct {
	Key    string
	Value  string
	Source string // "pulsemq.yaml:12", "PULSEMQ_NETWORK_PORT", "--set"
}

// ParseConfig builds a configuration from settings in rising precedence: a later
// setting of a key replaces an earlier one. Every fault of every setting is
// reported, also of those replaced; when there are any, the config must not be used.
func ParseConfig(settings []Setting, machine Machine) (Config, Faults) {
	var c Config
	var faults Faults
	for _, key := range keys {
		v, err := key.parse(key.Default)
		Assert(err == nil, "a declared default lies in its key's domain")
		store(key.field(&c), v)
	}
	last := make(map[string]Setting)
	faulty := make(map[string]bool)
	for _, s := range settings {
		at := keyIndex(s.Key)
		if at < 0 {
			// The value of an unknown key may be a secret; it is not repeated.
			faults = append(faults, Fault{Key: s.Key, Source: s.Source, Problem: "no such key" + didYouMean(s.Key, KeyNames(), "pulsemq config print lists all")})
			continue
		}
		v, err := keys[at].parse(s.Value)
		if err != nil {
			faults = append(faults, Fault{s.Key, s.Value, s.Source, err.Error()})
			faulty[s.Key] = true
			continue
		}
		store(keys[at].field(&c), v)
		last[s.Key] = s
	}
	c.resolve(machine)
	// A relation with a value that was not understood would only repeat the fault.
	understood := func(name string) bool { return !faulty[name] }
	for _, fault := range c.relationFaults(understood) {
		fault.Source = last[fault.Key].Source
		faults = append(faults, fault)
	}
	return c, faults
}

// DefaultConfig is the configuration when nothing is set.
func DefaultConfig(machine Machine) Config {
	c, faults := ParseConfig(nil, machine)
	Assert(faults == nil, "the defaults are valid on every machine")
	return c
}

// Validate reports every fault of a configuration that was built in code.
func (c *Config) Validate() Faults {
	var faults Faults
	for _, key := range keys {
		v := load(key.field(c))
		if key.auto(v) {
			continue
		}
		if problem := key.problem(v); problem != "" {
			faults = append(faults, Fault{Key: key.Name, Value: key.format(v), Problem: problem})
		}
	}
	return append(faults, c.relationFaults(func(string) bool { return true })...)
}

// ConfigValue is one line of a printed configuration.
type ConfigValue struct {
	Name   string
	Value  string
	Source string // of the setting that decided it, or "default"
}

// List describes the effective configuration, one entry per key in the order of
// the declarations. settings are those it was parsed from.
func (c *Config) List(settings []Setting) []ConfigValue {
	list := make([]ConfigValue, len(keys))
	for i, key := range keys {
		list[i] = ConfigValue{key.Name, key.format(load(key.field(c))), "default"}
		for _, s := range settings {
			if s.Key == key.Name {
				list[i].Source = s.Source
			}
		}
	}
	return list
}
