package conn

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// PortDefault is used where an address names no port.
	PortDefault = 9090

	scheme = "mq://"

	// hostNever are characters that no host name and no address has.
	hostNever = " \t\r\n/@?#[]"
)

// ParseAddresses reads mq://host:port,host:port, or the list without the scheme. The result has host:port in each place,
// IPv6 hosts in brackets, no address twice.
func ParseAddresses(list string) ([]string, error) {
	rest := list
	if i := strings.Index(list, "://"); i >= 0 {
		if !strings.EqualFold(list[:i+3], scheme) {
			return nil, fmt.Errorf("broker list %q: the scheme is mq://, or none", list)
		}
		rest = strings.TrimSuffix(list[i+3:], "/")
	}
	var addresses []string
	seen := map[string]bool{}
	for part := range strings.SplitSeq(rest, ",") {
		address, err := parseAddress(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("broker list %q: %w", list, err)
		}
		if !seen[address] {
			seen[address] = true
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// parseAddress reads host, host:port, [ipv6], [ipv6]:port or a bare ipv6.
func parseAddress(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("an address is empty: write host:port,host:port")
	}
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	// A zone may hold anything: "::1%eth0]:1" is one address for netip.
	if ip, err := netip.ParseAddr(bare); err == nil && !strings.ContainsAny(bare, hostNever) {
		return net.JoinHostPort(ip.String(), strconv.Itoa(PortDefault)), nil
	}
	host, portText := s, strconv.Itoa(PortDefault)
	if strings.Contains(s, ":") {
		var err error
		if host, portText, err = net.SplitHostPort(s); err != nil {
			return "", fmt.Errorf("address %q: write host:port, and IPv6 as [::1]:9090", s)
		}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return "", fmt.Errorf("address %q: port %q is not one of 1 to 65535", s, portText)
	}
	if host == "" || strings.ContainsAny(host, hostNever) {
		return "", fmt.Errorf("address %q: the host is empty or has characters that no host name has", s)
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10)), nil
}
