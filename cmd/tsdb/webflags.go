package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"

	"halite/api/netlimit"
)

// webConfig holds the flags of the HTTP server.
type webConfig struct {
	listenAddress   string
	externalURL     string
	routePrefix     string // without a slash at the end; empty if there is none
	allowedHosts    []string
	connectionsMax  int
	sendTimeout     time.Duration
	corsOrigin      string
	adminAPI        bool
	lifecycle       bool
	profiles        bool
	selfScrape      bool
	selfScrapeEvery time.Duration
	shutdownTimeout time.Duration
}

func (c *webConfig) addFlags(cmd *kingpin.CmdClause) {
	cmd.Flag("web.listen-address", "Address of the HTTP API.").Default("127.0.0.1:9480").StringVar(&c.listenAddress)
	cmd.Flag("web.external-url", "URL at which users reach this server, for example through a proxy. Links begin with it. "+
		"Default: the listen address.").StringVar(&c.externalURL)
	cmd.Flag("web.route-prefix", "Path below which the server answers. Default: the path of --web.external-url. Set / if a proxy "+
		"removes that path.").StringVar(&c.routePrefix)
	cmd.Flag("web.allowed-hosts", "Hosts that requests may name, which stops DNS rebinding: names, addresses, ranges such as "+
		"10.0.0.0/8, .example.com for all names below it, or * for any. Separate them by commas or repeat the flag. Default: "+
		"the host of --web.external-url and, on a loopback address, loopback hosts; elsewhere any address, or any host without "+
		"--web.external-url.").
		StringsVar(&c.allowedHosts)
	cmd.Flag("web.max-connections", "Maximum number of open connections. A further client waits; the server closes connections "+
		"without a request for it.").Default("512").IntVar(&c.connectionsMax)
	cmd.Flag("web.send-timeout", "Time after which the server closes a connection whose client takes nothing of an answer.").
		Default("30s").DurationVar(&c.sendTimeout)
	cmd.Flag("web.cors.origin", "Regular expression of the origins whose pages may read answers (CORS). Empty allows none.").
		StringVar(&c.corsOrigin)
	cmd.Flag("web.enable-admin-api", "Allow the endpoints below /api/v1/admin.").BoolVar(&c.adminAPI)
	cmd.Flag("web.enable-lifecycle", "Allow POST /-/reload and POST /-/quit. The first reloads --config.file and "+
		"reopens --query.log-file, as SIGHUP does. The second stops the server, as SIGTERM does.").
		BoolVar(&c.lifecycle)
	cmd.Flag("web.enable-pprof", "Serve profiles of the Go runtime below /debug/pprof/.").BoolVar(&c.profiles)
	cmd.Flag("web.self-scrape", "Store the server's own metrics.").Default("true").BoolVar(&c.selfScrape)
	cmd.Flag("web.self-scrape-interval", "Interval in which the server stores its own metrics.").Default("15s").
		DurationVar(&c.selfScrapeEvery)
	cmd.Flag("web.shutdown-timeout", "Maximum time for running requests after SIGTERM.").Default("30s").
		DurationVar(&c.shutdownTimeout)
}

// hostCheck makes the check of requests' hosts.
func (c *webConfig) hostCheck(listen net.Addr, r prometheus.Registerer) (*netlimit.HostCheck, error) {
	var hosts []string
	for _, list := range c.allowedHosts {
		hosts = append(hosts, strings.Split(list, ",")...)
	}
	if len(hosts) == 0 {
		var err error
		if hosts, err = netlimit.HostsDefault(listen, c.externalURL); err != nil {
			return nil, fmt.Errorf("--web.external-url: %w", err)
		}
	}
	check, err := netlimit.NewHostCheck(hosts, r)
	if err != nil {
		return nil, fmt.Errorf("--web.allowed-hosts: %w", err)
	}
	return check, nil
}
