package netlimit

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

	"halite/api/promjson"
)

// HostCheck refuses requests that name another host than the allowed ones. This stops DNS rebinding: an attacker makes the
// name of a web page resolve to this server, so that the browser sees one origin. The requests still carry that name.
type HostCheck struct {
	// Refused, if not nil, is called for each request that is refused, with the reason.
	Refused func(r *http.Request, err error)

	any      bool
	names    []string
	prefixes []netip.Prefix
	refused  prometheus.Counter
}

// HostsDefault returns the allowed hosts for a server without a list of its own. Each is a name, an address or a range of
// addresses.
//
// On a loopback address, the hosts are the names of the loopback interface. On another address, any host is allowed. With an
// external URL, only addresses and the names of the loopback interface are allowed there. A page cannot make a browser send
// the address of another server. The host of the external URL is always allowed.
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

// NewHostCheck returns a check that allows hosts. Each is a name without a port, an address, a range such as 10.0.0.0/8, or *
// for any host. A name with a leading dot allows all names below it as well. The registerer may be nil.
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

// For returns a check of another address, with other hosts. Both count in one metric.
func (c *HostCheck) For(hosts []string) (*HostCheck, error) {
	other, err := NewHostCheck(hosts, nil)
	if err != nil {
		return nil, err
	}
	other.refused, other.Refused = c.refused, c.Refused
	return other, nil
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
		err := fmt.Errorf("host %q is not allowed; start the server with --web.allowed-hosts to allow it", r.Host)
		c.refused.Inc()
		if c.Refused != nil {
			c.Refused(r, err)
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		// A failed write means that the client is gone.
		_, _ = w.Write(promjson.AppendError(nil, "bad_data", err.Error()))
	})
}

// allowed decides by the Host header, or by the host of a target that is a whole URL. Health checks may use the address of a
// container, or HTTP/1.0 without a Host: a page can send neither.
func (c *HostCheck) allowed(r *http.Request) bool {
	health := r.URL.Path == "/-/healthy" || r.URL.Path == "/-/ready"
	if r.Host == "" {
		return health
	}
	host, ok := withoutPort(r.Host)
	if !ok {
		return false
	}
	name, ok := hostName(host)
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

// withoutPort cuts the port off, if there is one; the brackets around an IPv6 address stay. By RFC 3986, section 3.2, a port is
// digits or empty, and an IPv6 address has brackets.
func withoutPort(hostport string) (host string, ok bool) {
	end := 0
	if strings.HasPrefix(hostport, "[") {
		end = strings.LastIndexByte(hostport, ']') + 1
	}
	name, port, _ := strings.Cut(hostport[end:], ":")
	return hostport[:end] + name, strings.Trim(port, "0123456789") == ""
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
