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
	cmd.Flag("web.external-url", "URL under which users reach this server; default: the listen address.").
		StringVar(&c.externalURL)
	cmd.Flag("web.allowed-hosts", "Host that requests may name, which keeps pages of other names away (DNS rebinding): a name, an "+
		"address, a range such as 10.0.0.0/8, .example.com for all names below, or * for any; separated by commas or repeated. By "+
		"default "+
		"that of --web.external-url, and on a loopback address localhost and loopback addresses, elsewhere any address, or "+
		"without --web.external-url any host.").
		StringsVar(&c.allowedHosts)
	cmd.Flag("web.max-connections", "Most open connections of all clients together; the next one waits. Connections without a "+
		"request are closed when one waits.").Default("512").IntVar(&c.connectionsMax)
	cmd.Flag("web.send-timeout", "How long a client may take nothing of an answer before its connection is ended.").
		Default("30s").DurationVar(&c.sendTimeout)
	cmd.Flag("web.cors.origin", "Regular expression of allowed CORS origins; empty allows none.").StringVar(&c.corsOrigin)
	cmd.Flag("web.enable-admin-api", "Allow the calls below /api/v1/admin.").BoolVar(&c.adminAPI)
	cmd.Flag("web.enable-lifecycle", "Allow POST /-/reload, which reads --storage.schema-rules and opens --query.log-file "+
		"again, as SIGHUP does, and POST /-/quit, which stops the server, as SIGTERM does.").
		BoolVar(&c.lifecycle)
	cmd.Flag("web.enable-pprof", "Serve the Go runtime's profiles below /debug/pprof/.").BoolVar(&c.profiles)
	cmd.Flag("web.self-scrape", "Store this server's own metrics.").Default("true").BoolVar(&c.selfScrape)
	cmd.Flag("web.self-scrape-interval", "How often.").Default("15s").DurationVar(&c.selfScrapeEvery)
	cmd.Flag("web.shutdown-timeout", "How long requests under way may take after SIGTERM.").Default("30s").
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
