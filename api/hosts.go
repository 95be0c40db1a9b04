package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// HostCheck refuses requests for hosts that are not allowed. With DNS rebinding, an attacker makes the name of his web page
// resolve to this server. The browser then sees one origin, but the requests still carry the attacker's name.
type HostCheck struct {
	any      bool
	names    []string
	prefixes []netip.Prefix
	refused  prometheus.Counter
}

// HostsDefault are the hosts that are allowed unless a list is given. Each is a name, an address or a range of addresses.
//
// On a loopback address these are the names of the loopback interface. Elsewhere any host is allowed, but with an external
// URL only addresses and the names of the loopback interface: a page cannot make a browser send an address that is not its
// own. The host of the external URL is always allowed.
func HostsDefault(listen net.Addr, externalURL string) ([]string, error) {
	hosts := []string{"localhost", "127.0.0.0/8", "::1"}
	tcp, ok := listen.(*net.TCPAddr)
	if loopback := ok && tcp.IP.IsLoopback(); !loopback {
		if externalURL == "" {
			return []string{"*"}, nil
		}
		hosts = []string{"localhost", "0.0.0.0/0", "::/0"}
	}
	if externalURL == "" {
		return hosts, nil
	}
	u, err := url.Parse(externalURL)
	if err != nil {
		return nil, err
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("%q has no host", externalURL)
	}
	return append(hosts, u.Hostname()), nil
}

// NewHostCheck allows hosts: names without a port, with a leading dot for all names below as well, addresses, ranges such as
// 10.0.0.0/8, or * for any. The registerer may be nil.
func NewHostCheck(hosts []string, r prometheus.Registerer) (*HostCheck, error) {
	c := &HostCheck{refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tsdb_http_host_refused_total", Help: "Requests refused because their host is not allowed (web.allowed-hosts).",
	})}
	var faults []error
	for _, host := range hosts {
		faults = append(faults, c.allow(host))
	}
	if len(hosts) == 0 {
		faults = append(faults, errors.New("no host is allowed; use * to allow any"))
	}
	if r != nil {
		faults = append(faults, r.Register(c.refused))
	}
	return c, errors.Join(faults...)
}

func (c *HostCheck) allow(host string) error {
	if host == "*" {
		c.any = true
		return nil
	}
	if prefix, err := netip.ParsePrefix(host); err == nil {
		c.prefixes = append(c.prefixes, prefix.Masked())
		return nil
	}
	name, ok := hostName(host)
	if addr, err := netip.ParseAddr(name); ok && err == nil {
		addr = addr.Unmap()
		c.prefixes = append(c.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	if !ok || host != strings.TrimSpace(host) || strings.ContainsAny(name, ":/*@ ") {
		return fmt.Errorf("host %q must be a name or an address without a port, a range of addresses such as 10.0.0.0/8, or *", host)
	}
	c.names = append(c.names, name)
	return nil
}

// Handler passes requests for allowed hosts on to next.
func (c *HostCheck) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.any || c.allowed(r) {
			next.ServeHTTP(w, r)
			return
		}
		c.refused.Inc()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		sendError(w, &apiError{
			typ: errBadData, status: http.StatusForbidden,
			err: fmt.Errorf("host %q is not allowed; start the server with --web.allowed-hosts to allow it", r.Host),
		})
	})
}

// allowed decides by the Host header, or by the host of the target where that is a whole URL. Health checks use the
// address of a container, or send HTTP/1.0 without a Host; a page can send neither.
func (c *HostCheck) allowed(r *http.Request) bool {
	health := r.URL.Path == "/-/healthy" || r.URL.Path == "/-/ready"
	if r.Host == "" {
		return health
	}
	name, ok := hostName(withoutPort(r.Host))
	if !ok {
		return false
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return slices.ContainsFunc(c.names, func(allowed string) bool {
			return name == strings.TrimPrefix(allowed, ".") || allowed[0] == '.' && strings.HasSuffix(name, allowed)
		})
	}
	addr = addr.Unmap().WithZone("")
	return health || slices.ContainsFunc(c.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// withoutPort cuts the port off, if there is one; the brackets around an IPv6 address stay.
func withoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || colon < strings.LastIndexByte(host, ']') {
		return host
	}
	return host[:colon]
}

// hostName is a host in lower case, without the brackets of an IPv6 address and the dot at the end of a name.
func hostName(host string) (name string, ok bool) {
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return inner, found && err == nil && addr.Is6()
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	return name, name != "" && name != "."
}
