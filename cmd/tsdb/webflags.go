package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"

	"halite/api/auth"
	"halite/api/netlimit"
	"halite/api/tenancy"
	"halite/cmd/tsdb/internal/program"
	"halite/cmd/tsdb/internal/requestlimits"
	"halite/storage"
	"halite/storage/tenants"
)

// webConfig holds the flags of the HTTP server.
type webConfig struct {
	listenAddress   string
	externalURL     string
	routePrefix     string // without a slash at the end; empty if there is none
	allowedHosts    []string
	corsOrigin      string
	adminAPI        bool
	lifecycle       bool
	profiles        bool
	selfScrape      bool
	selfScrapeEvery time.Duration
	shutdownTimeout time.Duration

	configFile string
	accessFile string
	insecure   bool
	openProbes bool
	// limits bound connections, requests and slow clients.
	limits requestlimits.Flags
	// listen makes auth from the files. It also makes the limiter of connections and the check of hosts.
	auth    *auth.Authenticator
	limiter *netlimit.Limiter
	hosts   *netlimit.HostCheck
	tenants tenantConfig
}

// tenantConfig holds the flags of tenants.
type tenantConfig struct {
	on         bool
	proxies    []string
	create     bool
	max        int
	severalMax int
	// sharedCPUs and sharedLogBytes are for a tenant while others are active. 0 CPUs are the default, 0 bytes no bound.
	sharedCPUs     int
	sharedLogBytes int64
}

func (c *tenantConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("tenants", "Separate the series of tenants. The tenant of a request follows from its token or user in "+
		"--web.access-file, or from the header X-Scope-OrgID. See docs/tenants.md.").BoolVar(&c.on)
	cmd.Flag("tenants.trust-header", "Addresses of proxies, such as 10.0.0.7 or 10.0.0.0/8. Requests from there may name any "+
		"tenant in the header X-Scope-OrgID. Separate them by commas or repeat the flag.").StringsVar(&c.proxies)
	cmd.Flag("tenants.create", "Create a tenant with its first write. Otherwise a write for an unknown tenant gets 403.").
		Default("true").BoolVar(&c.create)
	cmd.Flag("tenants.max", "Maximum number of tenants besides the default one.").Default("1000").IntVar(&c.max)
	cmd.Flag("tenants.max-shared-cpus", "Maximum number of CPUs that one tenant uses while others are active, for writes, queries "+
		"and responses together. 0 means three quarters of the CPUs, at least 1, and no bound with Bigtable.").
		Default("0").IntVar(&c.sharedCPUs)
	cmd.Flag("tenants.max-shared-log-bytes", "Maximum size of the decoded writes of one tenant that are not durable yet, while "+
		"other tenants are active. A larger write waits for the tenant's other writes. 0 means no bound.").
		Default("128KiB").SetValue(program.Bytes(&c.sharedLogBytes))
	cmd.Flag("tenants.max-in-query", "Maximum number of tenants that one query reads.").Default("16").IntVar(&c.severalMax)
}

// trusted parses the addresses of proxies.
func (c *tenantConfig) trusted() (list []netip.Prefix, err error) {
	for _, part := range c.proxies {
		for _, text := range strings.Split(part, ",") {
			prefix, err := netip.ParsePrefix(text)
			if addr, one := netip.ParseAddr(text); one == nil {
				prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
			}
			if err != nil {
				return nil, fmt.Errorf("--tenants.trust-header: %q is neither an address nor a range such as 10.0.0.0/8", text)
			}
			list = append(list, prefix.Masked())
		}
	}
	return list, nil
}

// Validate reports every fault.
func (c *tenantConfig) Validate() error {
	var faults []error
	if c.max <= 0 || c.severalMax <= 0 {
		faults = append(faults, errors.New("--tenants.max and --tenants.max-in-query must be above 0"))
	}
	if c.sharedCPUs < 0 {
		faults = append(faults, errors.New("--tenants.max-shared-cpus must not be negative"))
	}
	if len(c.proxies) > 0 && !c.on {
		faults = append(faults, errors.New("--tenants.trust-header needs --tenants"))
	}
	_, err := c.trusted()
	return errors.Join(append(faults, err)...)
}

// open returns the resolver of a request's tenants. Without --tenants it returns nil, and refuses a store with tenants,
// whose series would otherwise be open to everybody.
func (c *tenantConfig) open(
	ctx context.Context, store storage.Store, now func() time.Time, sharedCPUs int,
) (_ *tenancy.Tenancy, list *tenants.Registry, err error) {
	list, err = tenants.Open(ctx, tenants.Options{Store: store, Max: c.max, Fixed: !c.create, Now: now})
	if err != nil {
		return nil, nil, err
	}
	if !c.on {
		some, err := list.List(ctx)
		if err == nil && len(some) > 0 {
			err = fmt.Errorf("the store has %d tenants, %q first; start with --tenants", len(some), some[0].Name)
		}
		return nil, nil, err
	}
	proxies, err := c.trusted()
	if err != nil {
		return nil, nil, err
	}
	who, err := tenancy.New(tenancy.Options{List: list, Trusted: proxies, SeveralMax: c.severalMax, SharedCPUs: sharedCPUs})
	return who, list, err
}

func (c *webConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("web.listen-address", "Address of the HTTP API.").Default("127.0.0.1:9480").StringVar(&c.listenAddress)
	cmd.Flag("web.external-url", "URL at which users reach this server, for example through a proxy. Links begin with it. "+
		"Default: the listen address.").StringVar(&c.externalURL)
	cmd.Flag("web.route-prefix", "Path below which the server answers. Default: the path of --web.external-url. Set / if a proxy "+
		"removes that path.").StringVar(&c.routePrefix)
	cmd.Flag("web.allowed-hosts", "Hosts that requests may name, as a protection against DNS rebinding. A host is a "+
		"name, an address, a range such as 10.0.0.0/8, .example.com for all names below it, or * for any. Separate them by "+
		"commas or repeat the flag. Default on a loopback address: loopback hosts and the host of --web.external-url. "+
		"Default elsewhere: any address and the host of --web.external-url, or any host without --web.external-url.").
		StringsVar(&c.allowedHosts)
	cmd.Flag("web.cors.origin", "Regular expression of the origins whose pages may read responses (CORS). Empty allows none.").
		StringVar(&c.corsOrigin)
	c.addAccessFlags(cmd)
	c.limits.AddFlags(cmd)
	c.tenants.addFlags(cmd)
	cmd.Flag("web.enable-admin-api", "Allow the endpoints below /api/v1/admin.").BoolVar(&c.adminAPI)
	cmd.Flag("web.enable-lifecycle", "Allow POST /-/reload and POST /-/quit. The first reloads --config.file, "+
		"--web.config.file and --web.access-file, and reopens --query.log-file, as SIGHUP does. The second stops the server, as "+
		"SIGTERM does.").
		BoolVar(&c.lifecycle)
	cmd.Flag("web.enable-pprof", "Serve profiles of the Go runtime below /debug/pprof/.").BoolVar(&c.profiles)
	cmd.Flag("web.self-scrape", "Store the server's own metrics.").Default("true").BoolVar(&c.selfScrape)
	cmd.Flag("web.self-scrape-interval", "Interval at which the server stores its own metrics.").Default("15s").
		DurationVar(&c.selfScrapeEvery)
	cmd.Flag("web.shutdown-timeout", "Maximum time for running requests after SIGTERM.").Default("30s").
		DurationVar(&c.shutdownTimeout)
}

// addAccessFlags declares the flags for log-ins and rights.
func (c *webConfig) addAccessFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("web.config.file", "Web configuration in the format of Prometheus: TLS, client certificates, users with bcrypt hashes "+
		"of their passwords, HTTP/2 and headers. See docs/security.md. Changes take effect by themselves.").StringVar(&c.configFile)
	cmd.Flag("web.access-file", "File of bearer tokens and of the rights of tokens and users, see docs/security.md. "+
		"Changes take effect by themselves.").StringVar(&c.accessFile)
	cmd.Flag("web.insecure", "Serve everybody without log-in on an address that other machines can reach.").
		BoolVar(&c.insecure)
	cmd.Flag("web.open-probes", "Answer /-/healthy and /-/ready to everybody. Otherwise they need the scope read.").
		Default("true").BoolVar(&c.openProbes)
}

// openAuth loads the users and tokens. It refuses an address that other machines can reach, unless clients must log in.
func (c *webConfig) openAuth(listen net.Addr, r prometheus.Registerer, log *slog.Logger) (err error) {
	c.auth, err = auth.New(auth.Options{
		WebConfigFile: c.configFile, AccessFile: c.accessFile, Tenants: c.tenants.on, Registerer: r,
		Logger: log,
	})
	if err != nil {
		return err
	}
	if err := c.auth.CheckExposure(listen); err != nil {
		if !c.insecure {
			return fmt.Errorf("--web.listen-address: %w; set --web.config.file or --web.access-file (docs/security.md), or "+
				"--web.insecure to serve everybody", err)
		}
		log.Warn("everybody who reaches this address can read, write and use all that is enabled (--web.insecure)",
			"address", listen.String())
	}
	return nil
}

// hostCheck returns the check of the hosts that requests name.
func (c *webConfig) hostCheck(listen net.Addr, r prometheus.Registerer) (*netlimit.HostCheck, error) {
	hosts, err := c.hostsOf(listen)
	if err != nil {
		return nil, err
	}
	check, err := netlimit.NewHostCheck(hosts, r)
	if err != nil {
		return nil, fmt.Errorf("--web.allowed-hosts: %w", err)
	}
	return check, nil
}

// hostsOf returns the hosts that requests to an address may name.
func (c *webConfig) hostsOf(listen net.Addr) (hosts []string, err error) {
	for _, list := range c.allowedHosts {
		hosts = append(hosts, strings.Split(list, ",")...)
	}
	if len(hosts) > 0 {
		return hosts, nil
	}
	if hosts, err = netlimit.HostsDefault(listen, c.externalURL); err != nil {
		return nil, fmt.Errorf("--web.external-url: %w", err)
	}
	return hosts, nil
}
