package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pulsemq/pulsemq/core"
)

// serviceLink matches the variables that container platforms put into every
// container for a service that happens to be named pulsemq: PULSEMQ_SERVICE_HOST,
// PULSEMQ_PORT_9090_TCP_ADDR and their like. They are not ours.
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_|$)|_PORT_[0-9]+_(TCP|UDP)(_|$)`)

// serviceLinkValue matches the value of the one that is named like a key,
// as PULSEMQ_ADMIN_PORT is for a service named pulsemq-admin.
var serviceLinkValue = regexp.MustCompile(`^(tcp|udp)://`)

// readEnviron turns the variables with our prefix into settings, in the order of
// their names. One that no key has becomes a setting of its own name, which
// core.ParseConfig then refuses by naming the nearest key.
func readEnviron(environ []string) []core.Setting {
	keys := make(map[string]string)
	for _, key := range core.Keys() {
		keys[key.Env()] = key.Name
	}
	var settings []core.Setting
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, core.EnvPrefix) || serviceLink.MatchString(name) ||
			strings.HasSuffix(name, "_PORT") && serviceLinkValue.MatchString(value) {
			continue
		}
		key, known := keys[name]
		if !known {
			key = strings.ToLower(strings.Replace(strings.TrimPrefix(name, core.EnvPrefix), "_", ".", 1))
			key = strings.ReplaceAll(key, "_", "-")
		}
		settings = append(settings, core.Setting{Key: key, Value: value, Source: fmt.Sprintf("variable %s", printable(name))})
	}
	slices.SortStableFunc(settings, func(a, b core.Setting) int { return strings.Compare(a.Source, b.Source) })
	return settings
}

// printable leaves a name as it is unless it could break a line.
func printable(name string) string {
	if quoted := strconv.QuoteToASCII(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
