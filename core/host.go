package core

import (
	"net/netip"
	"strings"
)

// hostProblem says why a text is no host to listen on or to connect to, or "".
func hostProblem(host string) string {
	const allowed = "allowed are an IPv4 address, an IPv6 address without brackets, and a host name"
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	if host == "" || len(host) > 253 || strings.Trim(host, "0123456789.") == "" {
		return allowed
	}
	for _, label := range strings.Split(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool { return r == '.' || r > 127 || !topicNameByte(byte(r)) }) {
			return allowed
		}
	}
	return ""
}

// hostIsWildcard reports whether a listener on host serves all addresses.
func hostIsWildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsUnspecified()
}

// hostsOverlap reports whether listeners on both hosts would want one port twice.
func hostsOverlap(a, b string) bool {
	return a == b || hostIsWildcard(a) || hostIsWildcard(b)
}

func pathProblem(path string) string {
	if path == "" || strings.ContainsRune(path, 0) {
		return "wants the path of a folder"
	}
	return ""
}
