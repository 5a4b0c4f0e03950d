package main

import (
	"strings"
)

// splitPair cuts KEY=VALUE at its first '='.
func splitPair(flag, text string) (key, value string, err error) {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return "", "", usagef("%s %q: give it as KEY=VALUE", flag, text)
	}
	return key, value, nil
}

// settings reads repeated --config flags.
func settings(pairs []string) (map[string]string, error) {
	set := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, err := splitPair("--config", pair)
		if err != nil {
			return nil, err
		}
		if _, twice := set[key]; twice {
			return nil, usagef("--config %s is given twice", key)
		}
		set[key] = value
	}
	return set, nil
}
