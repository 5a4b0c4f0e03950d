// Package config gathers the broker's configuration from where an operator may
// write it, in rising precedence:
//
//	the defaults         declared in core
//	the YAML file        --config pulsemq.yaml
//	the environment      PULSEMQ_NETWORK_PORT=9090
//	--set                --set network.port=9090
//	the short flags      --data-dir, --listen, --admin
//
// Each source yields settings: the key, the value exactly as written, and the
// place. What they mean is decided once, by core.ParseConfig, so that all sources
// accept the same spellings and every fault names the place it came from.
package config
